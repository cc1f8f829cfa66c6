import re
from difflib import SequenceMatcher, get_close_matches
from itertools import takewhile
from pathlib import Path

from training_checklist.instruments import Job, JobConfig, misplaced, provenance, source, unread_keys
from training_checklist.probe import FAILED, WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    if source(config).loops:
        raise CannotJudge("the code goes through the whole config, key by key")
    known = {file.package for file in misplaced(config)}
    for full_key in unread_keys(config):
        if any(f"{package}.".startswith(f"{full_key}.") for package in known):
            continue
        if holds_anchor(config.place(full_key)):
            continue
        name = full_key.rpartition(".")[2]
        siblings = [str(key) for key in config.job if key != name]
        near = [each for each in get_close_matches(name, siblings, n=1) if by_one_letter(name, each)]
        added = any(f"{key}.".startswith(f"{full_key}.") for key in provenance(config).added)
        hint = f"; did you mean {near[0]}?" if near else ""
        fix = Fix(f"leave +{full_key} out, or read it in the code") if added else Fix(overrides=(f"~{full_key}",))
        what = f"nothing reads {full_key}: no code names it, and no interpolation leads to it{hint}"
        # In a file that somebody wrote for another project it may be a leftover.
        yield Hit(what, config.place(full_key), fix=fix, severity=FAILED if added or near else WARNING)


def holds_anchor(place: Place) -> bool:
    """Whether a key stands in its file so that other keys can be made of it: `x-common: &common`."""
    if place.spot is None or not Path(place.spot[0]).is_file():
        return False
    lines, name = Path(place.spot[0]).read_text(errors="replace").splitlines(), place.key.rpartition(".")[2]
    first = next((index for index, line in enumerate(lines) if line.lstrip().startswith(f"{name}:")), len(lines))
    depth = [len(line) - len(line.lstrip()) for line in lines[first:]]
    block = takewhile(lambda at: at == first or depth[at - first] > depth[0], range(first, len(lines)))
    return any(re.search(r"[:-] +&\w", lines[at]) for at in block)


def by_one_letter(name: str, other: str) -> bool:
    """Whether two names differ by a letter that is left out, added, exchanged or moved."""
    common = sum(block.size for block in SequenceMatcher(None, name, other).get_matching_blocks())
    return common >= max(len(name), len(other)) - 1


PROBE = Probe(
    question="Is every key of the config read by the code or by an interpolation?",
    why="whatever it is set to changes nothing",
    severity=WARNING,
    fix=Fix("take it out, or correct its name"),
    detect=detect,
    faulty=Job(("+quit=true",)),
    healthy=Job(("++quiet=true",)),
    also_healthy=(
        Job(("+labels_short=1",), line="print(cfg['{}_short'.format('labels')])"),
        Job(("+x_long=1", "+kind=x"), line="print(cfg[f'{cfg.kind}_long'])"),
        Job(("++quiet=${calm}", "+calm=true")),
        Job(("+calm=x",), {"conf/calm/x.yaml": "# @package _global_\nx-calm: &calm\n  quiet: true\n<<: *calm\n"}),
    ),
)
