from training_checklist.instruments import Job, RunFiles, records
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(files: RunFiles, limits: Limits) -> Hits:
    for file in records(files):
        if file.exists and not file.inside:
            what = f"the log of the run lies outside its directory: {file.path}"
            yield Hit(what, file.place, fix=Fix(overrides=(file.fix,)))


PROBE = Probe(
    question="Is the run's log file in the run's directory?",
    why="the logs of all runs mix there",
    fix=Fix("give the handler a file name below ${hydra:runtime.output_dir}"),
    detect=detect,
    faulty=Job(("hydra.job_logging.handlers.file.filename=all.log",)),
    healthy=Job(("hydra.job_logging.handlers.file.filename=${hydra:runtime.output_dir}/all.log",)),
)
