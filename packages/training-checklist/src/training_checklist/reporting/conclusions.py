"""Several findings that have one cause, told once: the cause on top, what else it shows in beneath."""

from dataclasses import dataclass, field

from training_checklist.finding import FAILED, Finding, Verdict


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

    def __str__(self) -> str:
        first, place = self.finding.what.splitlines()[0], self.finding.where.splitlines()
        told = f"{first} ({place[0]})" if place else first
        seen = ", ".join(dict.fromkeys(f"{item} [{finding.rule}]" for item, finding in self.witnesses))
        return f"{told}: {self.item} [{self.finding.rule}]" + (f"; seen by {seen}, too" if seen else "")


def conclusions(verdicts: list[Verdict]) -> list[Conclusion]:
    """Return what is wrong, most telling first.

    Findings at one place (a key of the config, a line, a parameter, a module) are one thing. A symptom goes with the
    cause at its place, and where it has none with the only cause that there is; else it stands for itself, last.
    """
    found = [
        (verdict.item, finding) for verdict in verdicts for finding in verdict.findings if finding.severity == FAILED
    ]
    gathered: list[Conclusion] = []
    for item, finding in [each for each in found if not each[1].symptom]:
        same = next((each for each in gathered if is_one_thing(each, finding)), None)
        if same is None:
            gathered.append(Conclusion(item, finding))
        elif (item, finding) != (same.item, same.finding):
            same.witnesses.append((item, finding))
    causes = list(gathered)
    for item, finding in [each for each in found if each[1].symptom]:
        same = next((each for each in gathered if is_one_thing(each, finding)), None)
        if same is None and len(causes) == 1:
            [same] = causes
        if same is None:
            gathered.append(Conclusion(item, finding))
        else:
            same.witnesses.append((item, finding))
    return gathered


def is_one_thing(known: Conclusion, finding: Finding) -> bool:
    return any(at_one_place(other, finding) for other in (known.finding, *(each for _, each in known.witnesses)))


def at_one_place(one: Finding, other: Finding) -> bool:
    """Whether two findings name the same key, line, parameter or module; what names none is a place of its own."""
    if (one.rule, one.what) == (other.rule, other.what):
        return True
    mine, others = one.place, other.place
    pairs = (
        (mine.key, others.key),
        (mine.line and (mine.file, mine.line), others.line and (others.file, others.line)),
        (mine.parameter, others.parameter),
        (mine.module.partition(" ")[0], others.module.partition(" ")[0]),
    )
    return any(own and own == their for own, their in pairs)
