from difflib import SequenceMatcher, get_close_matches

from training_checklist.instruments import Job, JobConfig, misplaced, provenance, source, unread_keys
from training_checklist.probe import FAILED, WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    if source(config).loops:
        raise CannotJudge("the code goes through the whole config, key by key")
    known = {file.package for file in misplaced(config)}
    for full_key in unread_keys(config):
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
