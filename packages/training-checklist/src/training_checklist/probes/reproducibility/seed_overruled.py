import ast
from collections.abc import Iterator

from training_checklist.instruments import FILES, Job, SeededRuns, calls_in_code, of_line
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    runs, key = seeded.runs, next(iter(seeded.runs.seeds), Place())
    if not key.value.isdecimal() or runs.one.seed != runs.two.seed or int(key.value) == runs.one.seed:
        return
    for line in lines_setting(runs.one.seed):
        what = f"the seed is {runs.one.seed} when training begins, whatever {key.key} is; here it is {key.value}"
        yield Hit(what, line.beside(key=key.key, value=key.value, origin=key.origin))


def lines_setting(seed: int) -> Iterator[Place]:
    """Yield the lines of the project's code that set this very number as the seed of everything."""
    for file, call in calls_in_code("manual_seed", "seed_everything"):
        given = [*call.args, *(each.value for each in call.keywords)]
        if any(isinstance(each, ast.Constant) and each.value == seed for each in given):
            yield of_line(str(file), call.lineno)


def seeded_by(number: str) -> Job:
    """Return a program that seeds everything before its network is made, and its config has a seed, too."""
    code = FILES["train.py"].replace(
        "    callbacks, loggers", f"    seed_everything({number})\n    callbacks, loggers", 1
    )
    code = code.replace("import hydra\n", "import hydra\nfrom pytorch_lightning import seed_everything\n", 1)
    return Job(("+seed=7",), {"train.py": code})


PROBE = Probe(
    question="Is the seed with which training begins the one that the config says?",
    why="weights, order and augmentation are the same for every seed, and the spread of results between seeds looks "
    "smaller than it is",
    severity=WARNING,
    fix=Fix("give that line the seed of the config, or take it out"),
    detect=detect,
    faulty=seeded_by("42"),
    healthy=seeded_by("cfg.seed"),
    also_healthy=(seeded_by("cfg.seed + 1"),),
)
