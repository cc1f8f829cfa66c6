from omegaconf import OmegaConf
from training_config.provenance import trace_config
from training_config.walk import value_of, walk

from training_checklist.instruments import Job, RunFiles, checkpoints, job
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(files: RunFiles, limits: Limits) -> Hits:
    written = ", ".join(sorted({files.short(path.parent) for path in files.run.rglob("*.ckpt")}))
    own = all(each in files.undirected and not files.part_key(each) for each in checkpoints(files))
    key = removed(files)
    if written and own and key and checkpoints(files):
        what = f"{key} is taken away, so that the Trainer's own default keeps checkpoints, in {written}"
        yield Hit(what, files.place(key))


def removed(files: RunFiles) -> str:
    """Return the key of a ModelCheckpoint that the config's files have and the job's config has not, or ""."""
    try:
        traced = trace_config(files.config).files
    except Exception as error:  # Hydra's internals, which a later version may change
        raise CannotJudge(f"it is not known what the config's files have: {error}") from error
    for file in traced:
        for full_key, node, key in walk(OmegaConf.create(file.content)):
            target = value_of(node, key) if key == "_target_" else None
            if isinstance(target, str) and target.endswith(".ModelCheckpoint"):
                owner = ".".join(part for part in (file.package, full_key.removesuffix("._target_")) if part)
                if OmegaConf.select(job(files), owner, default=None) is None:
                    return owner
    return ""


PROBE = Probe(
    question="Is the ModelCheckpoint of the config still among the callbacks, and not replaced by Lightning's default?",
    why="the default keeps the last weights and not the best, where the logger or the working directory happens to be",
    severity=WARNING,
    fix=Fix("keep the callback; to keep no checkpoints:", overrides=("trainer.enable_checkpointing=false",)),
    detect=detect,
    faulty=Job(("~callbacks.checkpoint",)),
    healthy=Job(("~callbacks.checkpoint", "+trainer.enable_checkpointing=false")),
)
