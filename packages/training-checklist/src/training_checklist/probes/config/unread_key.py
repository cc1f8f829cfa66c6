from collections.abc import Iterator
from difflib import SequenceMatcher, get_close_matches

from omegaconf import DictConfig
from training_config.walk import is_no_content

from training_checklist.instruments import Job, JobConfig, misplaced, provenance, source
from training_checklist.probe import FAILED, WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe
from training_checklist.settings import KEY


def detect(config: JobConfig, limits: Limits) -> Hits:
    if source(config).loops:
        raise CannotJudge("the code goes through the whole config, key by key")
    known = {file.package for file in misplaced(config)}
    for full_key in unread(config, config.job, ""):
        if any(f"{package}.".startswith(f"{full_key}.") for package in known):
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


def unread(config: JobConfig, node: DictConfig, prefix: str) -> Iterator[str]:
    for key in map(str, node):
        full_key, child = f"{prefix}{key}", node._get_node(key)
        if full_key == KEY or config.is_referred_to(full_key) or config.is_of_debug(full_key):
            continue
        if not config.code.names(key):
            yield full_key
        elif isinstance(child, DictConfig) and not is_no_content(child) and not {"_target_"} & {*child}:
            yield from unread(config, child, f"{full_key}.") if key not in config.code.whole else ()


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
    also_healthy=(Job(("++quiet=${calm}", "+calm=true")),),
)
