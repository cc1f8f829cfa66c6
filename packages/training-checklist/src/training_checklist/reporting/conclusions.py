"""Several findings that have one cause, told once: the cause on top, what else it shows in beneath."""

import re
from dataclasses import dataclass, field

from training_checklist.finding import FAILED, Finding, Place, Verdict, worst

MORE = re.compile(r" and \d+ more$")  # of a list that is not shown to its end


@dataclass
class Conclusion:
    """One thing that is wrong.

    Args:
        item: that found it.
        finding: which says most.
        witnesses: findings of the same thing, or of what may follow from it, each with its item.
    """

    item: str
    finding: Finding
    witnesses: list[tuple[str, Finding]] = field(default_factory=list)

    @property
    def severity(self) -> str:
        return worst([self.finding.severity, *(finding.severity for _, finding in self.witnesses)]) or FAILED

    @property
    def explains(self) -> bool:
        """Whether something of what one process computes in training may follow from it."""
        is_of_several = {self.item, *(item for item, _ in self.witnesses)} == {"distributed"}
        return not is_of_several and not self.finding.rule.startswith(AFTERWARDS)

    def __str__(self) -> str:
        first, place = self.finding.what.splitlines()[0], self.finding.where.splitlines()
        told = f"{first} ({place[0]})" if place else first
        own = f"{self.item} [{self.finding.rule}]"
        others = dict.fromkeys(f"{item} [{finding.rule}]" for item, finding in self.witnesses)
        seen = ", ".join(each for each in others if each != own)  # of one rule several findings may be one thing
        mark = "" if self.severity == FAILED else f"{self.severity}: "
        return f"{mark}{told}: {own}" + (f"; seen by {seen}, too" if seen else "")


# How the rules begin that ask what is left of a run, what it is measured by, or how it fares on another device: of
# what it computes here, nothing follows from that.
AFTERWARDS = (
    *("paths/", "reproducibility/", "device/", "crash/pickled-objects"),
    *(f"data/{name}" for name in ("tested-on-validation", "test-split", "shared-", "held-out-", "split-drawn")),
)


def conclusions(verdicts: list[Verdict]) -> list[Conclusion]:
    """Return what is wrong: failures before warnings, and of either kind causes before symptoms.

    Findings at one place (a key of the config, a line, a parameter, a module) are one thing. A symptom goes with what
    is known of its place, and where that is nothing with the only cause that there is; else it stands for itself. What
    only may be wrong explains no failure; where files lie, what they hold, whether a run can be had once more, how
    fair its splits are, or how several processes fare explains nothing that one computes.
    """
    found = [(verdict.item, finding) for verdict in verdicts for finding in verdict.counted]
    found.sort(key=lambda each: each[1].severity != FAILED)
    gathered: list[Conclusion] = []
    for item, finding in [each for each in found if not each[1].symptom]:
        one = [each for each in gathered if is_one_thing(each, finding)]
        seen = [*(pair for each in one for pair in ((each.item, each.finding), *each.witnesses)), (item, finding)]
        first, *others = sorted(dict.fromkeys(seen), key=weight)
        place = gathered.index(one[0]) if one else len(gathered)
        gathered = [each for each in gathered if each not in one]
        gathered.insert(place, Conclusion(*first, others))
    causes = [each for each in gathered if each.explains]
    for item, finding in [each for each in found if each[1].symptom]:
        grave = [each for each in causes if finding.severity != FAILED or each.severity == FAILED]
        same = next((each for each in gathered if is_one_thing(each, finding)), None)
        if same is None and len(grave) == 1:
            [same] = grave
        if same is None:
            gathered.append(Conclusion(item, finding))
        else:
            same.witnesses.append((item, finding))
    return sorted(gathered, key=lambda each: each.severity != FAILED)


def is_one_thing(known: Conclusion, finding: Finding) -> bool:
    return any(at_one_place(other, finding) for other in (known.finding, *(each for _, each in known.witnesses)))


def at_one_place(one: Finding, other: Finding) -> bool:
    """Whether two findings name the same key, line, parameter or module; what names none is a place of its own."""
    if (one.rule, one.what) == (other.rule, other.what):
        return True
    mine, others = one.place, other.place
    # What is drawn without a seed says nothing of what else is wrong with a line, or with weights.
    alike = one.rule.startswith("reproducibility/") == other.rule.startswith("reproducibility/")
    is_shared = not parameters(mine).isdisjoint(parameters(others)) or holds(mine, others) or holds(others, mine)
    if alike and is_shared:
        return True
    pairs = (
        (mine.key, others.key),
        (mine.line and (mine.file, mine.line), alike and others.line and (others.file, others.line)),
        (mine.module.partition(" ")[0], others.module.partition(" ")[0]),
    )
    return any(own and own == their for own, their in pairs)


def weight(seen: tuple[str, Finding]) -> tuple[bool, bool]:
    """By which the one that says most comes first: the gravest, and of these one that leads to a line."""
    return seen[1].severity != FAILED, seen[1].place.spot is None


def parameters(place: Place) -> set[str]:
    return {*filter(None, MORE.sub("", place.parameter).split(", "))}


def holds(place: Place, other: Place) -> bool:
    """Whether parameters of a module are named, but for some, and those of a module inside it by the other place."""
    inner, outer = (each.module.partition(" ")[0] for each in (other, place))
    return bool(MORE.search(place.parameter) and other.parameter and inner.startswith(f"{outer}."))
