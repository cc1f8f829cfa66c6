import re
from pathlib import Path

from training_checklist.instruments import (
    VERSION,
    Asked,
    Job,
    RunFiles,
    asked_for,
    changes_directory,
    is_of_one_run,
    records,
)
from training_checklist.probe import FAILED, WARNING, Fix, Hit, Hits, Limits, Place, Probe

CONSTANT = re.compile(r"\$\{hydra[.:](job\.name|runtime\.cwd)\}")  # the same in every job


def detect(files: RunFiles, limits: Limits) -> Hits:
    asked, severity = Asked.current or Asked.of(files.config), FAILED
    if asked.folder.resolve() == files.here and not asked.shared and makes_its_own(files):
        return
    path, typed = files.short(asked.folder), asked.typed and not asked.in_sweep
    resumed = files.trainer.ckpt_path and Path(files.trainer.ckpt_path).resolve().is_relative_to(asked.folder)
    held = [] if asked.in_sweep or resumed else files.held
    # A path from the root on the command line is a scheduler's or a test's, which makes one for each job.
    constant = "${" not in CONSTANT.sub("", asked.raw) and not (asked.typed and Path(asked.raw).is_absolute())
    if asked.shared:
        what = f"two jobs of this sweep share {path}"
    elif held:
        what = f"{path} held the results of another job already: {', '.join(held[:3])}"
    elif asked.folder.resolve() == files.here:
        what = "the run's directory is the working directory itself"
    elif constant and not typed:
        what = f"every job gets the same directory, {path}"
    elif constant:
        what, severity = f"the next run of this command gets the same directory, {path}", WARNING
    else:
        return
    key = "hydra.sweep.subdir" if asked.in_sweep else "hydra.run.dir"
    unique = "${hydra.job.num}" if asked.in_sweep else "outputs/${now:%Y-%m-%d}/${now:%H-%M-%S}"
    # Where the program goes into that directory, its relative paths go with it.
    stay = ("hydra.job.chdir=false",) if changes_directory(files.config) else ()
    yield Hit(what, Place(key=key, value=asked.raw), fix=Fix(overrides=(f"{key}={unique}", *stay)), severity=severity)


def makes_its_own(files: RunFiles) -> bool:
    """Whether all that is written lies in folders of this run alone, which the code or Lightning makes itself.

    Of this run alone are those with its time or id in their name, and a `version_N`.
    """
    if any(each.path is not None for each in records(files)):
        return False
    written = [asked_for(path) for path in files.recording.opened if path.is_file() and not path.is_symlink()]
    return bool(written) and all(VERSION.search(files.short(path)) or is_of_one_run(files, path) for path in written)


PROBE = Probe(
    question="Does every job write into a directory of its own?",
    why="the later job overwrites checkpoints and logs of the earlier one, or mixes with them",
    fix=Fix("put the time or the number of the job into its directory's name"),
    detect=detect,
    faulty=Job(raw="outputs/same"),
    healthy=Job(raw="outputs/${now:%H-%M-%S}"),
)
