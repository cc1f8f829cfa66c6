import re

from training_checklist.instruments import Job, JobConfig, given_to, provenance, typed
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe, Threshold

# Settings of the Trainer for a look at a few batches, and what they make of a training.
SETTINGS = {
    "overfit_batches": "trains on the same few batches again and again, and validates on them",
    "fast_dev_run": "runs a few batches of each split, and keeps no checkpoint",
    "detect_anomaly": "looks for NaN after each operation of backward, which takes several times as long",
    "limit_train_batches": "trains on a part of the data",
    "limit_val_batches": "validates on next to nothing",
    "limit_test_batches": "tests on next to nothing",
}
# In the name of a file, these say that it is for such a look.
TRIALS = re.compile(r"debug|smoke|quick|fast|tiny|demo|dev|test|profil|anomaly|overfit")


def detect(config: JobConfig, limits: Limits) -> Hits:
    provenance(config)  # where that is not known, nothing says that a value is kept in a file
    for name, does in SETTINGS.items():
        for key, _, value in given_to(config, name):
            is_on = isinstance(value, (int, float)) and bool(value)
            if name == "limit_train_batches":  # a whole number of batches may be how long an epoch is meant to be
                is_on = type(value) is float and 0 < value < 1
            elif name.startswith("limit"):  # 0 leaves a split out on purpose, as 1.0 takes all
                is_on = type(value) is int and 0 < value <= limits.max_few_batches
                is_on &= name not in config.code.own_words  # which may ask for just that
                # Where no callback waits for a metric, validation may be a look at one batch, such as drawn pictures.
                waiting = any(isinstance(each, str) for _, _, each in given_to(config, "monitor"))
                is_on &= waiting or name != "limit_val_batches"
            place = config.place(key)
            kept = is_on and not place.is_typed and not TRIALS.search(place.origin)
            if kept and not is_trial(config, place):
                yield Hit(f"{key}={value} {does}", place)


def is_trial(config: JobConfig, place: Place) -> bool:
    """Whether the file, an option that the command has chosen, limits training to some batches, too."""
    file = place.origin.rpartition(":")[0]
    chosen = any(f"/{file}".endswith(f"/{text.lstrip('+').replace('=', '/')}.yaml") for text in typed())
    limited = [config.place(key) for key, _, value in given_to(config, "limit_train_batches") if type(value) is int]
    return chosen and any(each.origin.rpartition(":")[0] == file for each in limited)


def kept(*lines: str, monitor: str = "train/loss") -> Job:
    text = "\n".join(["# @package _global_", "trainer:", *(f"  {line}" for line in lines), ""])
    overrides = (f"+callbacks.checkpoint.monitor={monitor}", "+experiment=kept")
    return Job(overrides, {"conf/experiment/kept.yaml": text})


PROBE = Probe(
    question="Are overfit_batches, fast_dev_run, detect_anomaly and small limit_*_batches off in a training?",
    why="set in a file for a look at a few batches and left there, it makes each later training another one",
    severity=WARNING,
    fix=Fix("take it out of the file, and give it on the command line for the run that needs it"),
    detect=detect,
    thresholds={
        "max_few_batches": Threshold(
            5,
            "of held-out samples: twice what Lightning's own look before training takes, num_sanity_val_steps=2, and "
            "one more",
            faulty=kept("limit_val_batches: 4"),
            healthy=kept("limit_val_batches: 8"),
        )
    },
    faulty=kept("detect_anomaly: true"),
    healthy=Job(("+trainer.detect_anomaly=true",)),
    also_healthy=(
        kept("limit_train_batches: 2", "limit_val_batches: 1"),
        kept("limit_val_batches: 1", monitor="null"),
    ),
)
