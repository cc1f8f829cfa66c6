from pathlib import Path

from training_checklist.instruments import Job, RunFiles, checkpoints
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(files: RunFiles, limits: Limits) -> Hits:
    for callback in checkpoints(files):
        key = files.part_key(callback)
        place = files.place(key) if key else Place(note="ModelCheckpoint")
        # A test that loads one checkpoint sets another callback back to what it knew when that one was saved.
        saved = callback.best_model_path, callback.last_model_path, callback._last_checkpoint_saved
        paths = [Path(path) for path in saved if path]
        empty = [path for path in paths if path.is_file() and not path.stat().st_size]
        due = callback.save_top_k != 0 and callback._every_n_epochs == 1 and files.trainer.current_epoch > 0
        due = due and not callback._every_n_train_steps and callback._train_time_interval is None
        if empty:
            yield Hit(f"{files.short(empty[0])} is empty", place)
        elif due and not any(map(files.has_written, paths)):
            yield Hit("no checkpoint was written in an epoch", place)


PROBE = Probe(
    question="Has every ModelCheckpoint written the files that its arguments promise?",
    why="the weights of the run are lost when it ends",
    fix=Fix("look at the arguments of ModelCheckpoint"),
    detect=detect,
    faulty=Job(("+callbacks.checkpoint.save_on_train_epoch_end=false",)),
    healthy=Job(),
)
