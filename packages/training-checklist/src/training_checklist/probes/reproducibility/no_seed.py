import ast
import re
from dataclasses import replace

import torch

from training_checklist.instruments import FILES, Job, SeededRuns, Small, calls_in_code, record_of
from training_checklist.probe import REMARK, Fix, Hit, Hits, Limits, Place, Probe


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    runs = seeded.runs
    if runs.parted is None or runs.one.seed == runs.two.seed:
        return
    # Of the lines that come out differently in each process, one may make the seed; others matter when there is one.
    salted, record = [line for line in runs.salted if "seed" in line.source], record_of(runs.one.seed)
    if record or (not salted and runs.one.is_printed and runs.two.is_printed):
        yield Hit(
            f"each run draws a seed of its own: torch's was {runs.one.seed} and {runs.two.seed}; "
            + (f"it stands in {record}" if record else "seed_everything prints it"),
            Place(file=record),
            "a run can be had once more with the seed that it has kept, and not by the same command",
            Fix("give the seed on the command line to have a run once more"),
            REMARK,
        )
        return
    row, key = runs.parted[0], next(iter(runs.seeds), Place())
    place = key.beside(parameter=row.name) if row.kind == "initial weight" else key
    place, why = replace(runs, salted=salted).at(place, PROBE.why)
    unset = key.value == "null"
    given = f"although the config has {key.key}={key.value}, " if key.key and not unset else ""
    if "hash(" in place.source:
        fix = Fix(OF_A_TEXT)
    elif unset:
        fix = Fix(overrides=(f"{key.key}=42",)) if any(calls_in_code(*SEEDING)) else None
    else:
        advice = WHATEVER_IT_IS if any(calls_in_code(*SEEDING)) else FIRST_LINE
        fix = Fix(advice.format(key=key.key)) if given else key_that_seeds()
    yield Hit(
        f"{given}no seed is set, or another one in each run: torch's was {runs.one.seed} and {runs.two.seed}, and the "
        f"runs part in the {f'{row.kind} {row.name}'.strip()} of step {row.step}: {runs.numbers()}",
        place,
        why,
        fix=fix,
    )


def key_that_seeds() -> Fix | None:
    """Return the override that gives the program a seed where it asks a config for one that has none."""
    for _, call in calls_in_code("seed_everything"):
        asked = OF_CONFIG.fullmatch(ast.unparse(call.args[0])) if call.args else None
        if asked is not None:
            return Fix(overrides=(f"+{asked[1] or asked[2]}=42",))
    return None


SEEDING = ("seed_everything", "manual_seed", "set_seed", "seed", "seed_all", "fix_seed", "set_random_seed")
OF_CONFIG = re.compile(r"""\w+\.(\w*seed\w*)|\w+(?:\.get\(|\[)['"](\w*seed\w*)['"][\])]""")
OF_A_TEXT = "a number of the text that every process has alike: zlib.crc32(text.encode())"
FIRST_LINE = "seed_everything(cfg.{key}, workers=True) as the training function's first line"
WHATEVER_IT_IS = (
    "seed_everything(cfg.{key}, workers=True) whatever its value: `if cfg.{key}:` leaves out 0, a seed as any"
)


class Begun(Small):
    seed = staticmethod(torch.seed)

    def __init__(self) -> None:
        self.seed()
        super().__init__()


def drawn(kept: str) -> Job:
    """Return a program that draws its seed, with the line that sets and keeps it."""
    lines = f"    seed = secrets.randbits(32)\n    {kept}\n    callbacks, loggers"
    code = FILES["train.py"].replace("    callbacks, loggers", lines, 1)
    imports = (
        "import secrets\nfrom pathlib import Path\nimport torch\nfrom hydra.core.hydra_config import HydraConfig\n"
        "from pytorch_lightning import seed_everything"
    )
    return Job(files={"train.py": f"{imports}\n{code}"})


IN_A_FILE = "torch.manual_seed(seed); Path(HydraConfig.get().runtime.output_dir, 'seed.json').write_text(str(seed))"
PRINTED_BY_LIGHTNING = "seed_everything(seed)"


PROBE = Probe(
    question="Is a seed set (seed_everything), so that two runs of one command begin with the same one?",
    why="a process begins with a seed that torch draws: nothing that comes out can be had once more",
    may_be_wrong="where the spread of results between runs is what is measured, each run has a seed of its own: set "
    "and record it",
    fix=Fix(FIRST_LINE.format(key="seed")),
    detect=detect,
    faulty=Begun,
    also_faulty=(drawn(IN_A_FILE), drawn(PRINTED_BY_LIGHTNING)),  # remarks
    healthy=type("Seeded", (Begun,), {"seed": staticmethod(lambda: torch.manual_seed(1))}),
)
