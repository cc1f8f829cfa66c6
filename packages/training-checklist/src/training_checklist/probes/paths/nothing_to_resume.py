from pathlib import Path

from training_checklist.instruments import Asked, Job, RunFiles, raw_directory, shorten
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(files: RunFiles, limits: Limits) -> Hits:
    folder, found, place = files.resumed_from
    inside = folder.is_relative_to(Path(files.config.hydra.runtime.output_dir).resolve())
    directory = raw_directory(files.config) if Asked.current is None else Asked.current.raw
    if found is None and inside and "${now:" in directory:
        yield Hit(
            f"fit(ckpt_path='last') looks for a checkpoint in {shorten(folder)}, which is new in every run, and begins "
            "anew",
            place,
        )


PROBE = Probe(
    question="Can fit(ckpt_path='last') find a checkpoint of an earlier run?",
    why="what was trained so far is left behind, and the run looks as if it had been resumed: Lightning only warns",
    fix=Fix("give ckpt_path the file of the run to go on from, or checkpoints a folder that all runs share"),
    detect=detect,
    faulty=Job(("resume=last",)),
    healthy=Job(("resume=last", "callbacks.checkpoint.dirpath=kept")),
)
