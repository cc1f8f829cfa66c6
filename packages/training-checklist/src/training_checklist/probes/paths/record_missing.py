from training_checklist.instruments import FILES, Job, RunFiles, records
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(files: RunFiles, limits: Limits) -> Hits:
    for file in records(files):
        if file.path is None:
            fix = Fix(overrides=(file.fix,))
            yield Hit("there is no .hydra with the run's config", file.place, fix=fix, severity=WARNING)
        elif not file.exists:
            yield Hit(f"{file.path} is missing", file.place)
        elif not file.inside:
            what = f"the log of the run lies outside its directory: {file.path}"
            yield Hit(what, file.place, "the logs of all runs mix there", Fix(overrides=(file.fix,)))


SAVED = "    OmegaConf.save(cfg, HydraConfig.get().runtime.output_dir + '/config.yaml')\n    trainer.fit"
SAVING = FILES["train.py"].replace("    trainer.fit", SAVED, 1)
SAVING = SAVING.replace(
    "import hydra\n",
    "import hydra\nfrom hydra.core.hydra_config import HydraConfig\nfrom omegaconf import OmegaConf\n",
    1,
)


PROBE = Probe(
    question="Are the config (.hydra) and the log of the run both in its directory?",
    why="nobody can tell later what was run",
    fix=Fix("look at what removes it"),
    aliases=("paths/log-outside",),
    detect=detect,
    faulty=Job(("hydra.output_subdir=null",)),
    also_faulty=(Job(("hydra.job_logging.handlers.file.filename=all.log",)),),
    healthy=Job(("hydra.output_subdir=config",)),
    also_healthy=(
        Job(("hydra.job_logging.handlers.file.filename=${hydra:runtime.output_dir}/all.log",)),
        Job(("hydra.job_logging.handlers.file.filename=all.log", "hydra.job.chdir=true")),
        Job(("hydra.output_subdir=null",), {"train.py": SAVING}),
    ),
)
