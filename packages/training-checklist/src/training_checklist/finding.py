"""What a rule has found: plain data with a structure. Nothing here imports torch."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

PASSED, WARNING, FAILED, SKIPPED, ERROR = "passed", "warning", "failed", "skipped", "tool error"
REMARK = "remark"  # severity of a finding that leaves its item's verdict as it is


@dataclass(frozen=True)
class Place:
    """Where something is, in as many of these ways as apply.

    Args:
        rank: of the process, "1", or of several, "0 and 1".
        loader: "train_dataloader", or "val_dataloader[1]" where there are several.
        batch: its index in the epoch.
        sample: an index into the dataset, or a position in the batch where there is one.
        module: path as in `named_modules()`, with the type in brackets where that is known: "net.head (Linear)".
        parameter: name as in `named_parameters()`, or several with commas between.
        file: as seen from the working directory.
        line: in that file, from 1 on.
        function: that the line belongs to, "Classifier.training_step".
        source: the line itself.
        key: of the config, with dots.
        value: of that key, as an override writes it.
        origin: who set it, "conf/train.yaml:19" or "command line".
        note: what no field says.
        code: the lines of that file around the line, "12: x = x / 255", for who reads the report without the project.
    """

    rank: str = ""
    loader: str = ""
    batch: int | None = None
    sample: int | None = None
    module: str = ""
    parameter: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""
    key: str = ""
    value: str = ""
    origin: str = ""
    note: str = ""
    code: Sequence[str] = ()

    @property
    def is_typed(self) -> bool:
        """Whether the command line has set it."""
        return self.origin.startswith("command line")

    def __str__(self) -> str:
        setting = f"{self.key}={self.value}" if self.value else self.key
        data = [self.loader] if self.loader else []
        data += [f"batch {self.batch}"] if self.batch is not None else []
        data += [f"item {self.sample}"] if self.sample is not None else []
        line = f"{self.file}:{self.line}" if self.line else self.file
        line = " in ".join(part for part in (line, self.function) if part)
        parts = [
            f"{setting} ({self.origin})" if setting and self.origin else setting or self.origin,
            self.module,
            self.parameter,
            f"{line}: {self.source}" if line and self.source else line or self.source,
            ", ".join(data),
            self.note,
        ]
        said = ", ".join(part for part in parts if part)
        return f"rank{'s' * (' ' in self.rank)} {self.rank}: {said}".rstrip(": ") if self.rank else said

    @property
    def spot(self) -> tuple[str, int] | None:
        """The file and the line that are meant: of the code, or of the config that set the value."""
        origin = re.match(r"([^\s,]+):(\d+)", self.origin)
        if self.file and self.line:
            return self.file, self.line
        return (origin[1], int(origin[2])) if origin else None

    def identity(self) -> tuple[str, ...]:
        """Return what stays when lines move and numbers change: by it a finding is known again."""
        return self.key, self.module.partition(" ")[0], self.parameter, self.file, self.function, self.loader

    def beside(self, **further: Any) -> "Place":
        """Return this place with further fields."""
        return replace(self, **further)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that say something."""
        return {name: value for name, value in vars(self).items() if value != getattr(NOWHERE, name)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Place":
        return cls(**content | {"code": tuple(content.get("code", ()))})


@dataclass(frozen=True)
class Fix:
    """What to do next.

    Args:
        advice: in words, for what is done in code.
        overrides: of the user's own command, with which the item is run again: "optimizer.lr=0.01", "~callbacks.ema".
        items: debug items that tell more.
    """

    advice: str = ""
    overrides: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


NOWHERE, NOTHING = Place(), Fix()


@dataclass(frozen=True)
class Finding:
    """One thing that a rule has seen.

    Args:
        rule: its id.
        severity: FAILED, WARNING or REMARK.
        what: what was seen, with its numbers.
        place: where.
        why: why that matters.
        fix: what to do next.
        symptom: whether it may only follow from what another finding says.
        near: the nearest line of the project's own code that is known, where the place names none.
        command: the fix in words, with commands as this project spells them; filled in when it is reported.
    """

    rule: str
    severity: str
    what: str
    place: Place = NOWHERE
    why: str = ""
    fix: Fix = NOTHING
    symptom: bool = False
    near: Place = field(default=NOWHERE, compare=False)
    command: str = ""

    @property
    def where(self) -> str:
        return str(self.place)

    @property
    def spots(self) -> list[tuple[str, int]]:
        """Files with a line, the most telling first."""
        return [spot for spot in (self.place.spot, self.near.spot) if spot is not None]

    def identity(self) -> tuple[str, ...]:
        return self.rule, *self.place.identity()

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, as report.json has it: `where` and `fix` in words, and their fields."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "what": self.what,
            "where": self.where,
            "why": self.why,
            "fix": self.command or self.fix.advice,
            "symptom": self.symptom,
            "place": self.place.as_dict(),
            "near": self.near.as_dict(),
            "overrides": list(self.fix.overrides),
            "items": list(self.fix.items),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Finding":
        fix = Fix(overrides=tuple(content["overrides"]), items=tuple(content["items"]))
        plain = {name: content[name] for name in ("rule", "severity", "what", "why", "symptom")}
        place, near = (Place.from_dict(content.get(name, {})) for name in ("place", "near"))
        return cls(**plain, place=place, near=near, fix=fix, command=content["fix"])


@dataclass(frozen=True)
class Crashed:
    """An exception that the run has raised.

    Args:
        kind: its class and where it arose, by which it is known again.
        told: what it says, in one line.
        finding: the id of the rule, and what, of the finding that tells of it.
        after: whether training had come to its end.
        unasked: whether the item had seen all that it asks about: what it has left out or shortened may be missing.
    """

    kind: str
    told: str
    finding: tuple[str, str]
    after: bool
    unasked: bool = False

    @property
    def place(self) -> str:
        """The file and the function of the project where it arose, or ""."""
        return self.kind.partition(" in ")[2]

    def arises_with(self, other: "Crashed") -> bool:
        """Whether both come from one function."""
        return (self.place or self.kind) == (other.place or other.kind)

    def forestalls(self, other: "Crashed") -> bool:
        """Whether a run that ends with this exception cannot come to the stage of the other one."""
        return other.after or not self.after


@dataclass
class Verdict:
    """What an item of the checklist came to.

    Args:
        item: name of the option in conf/debug/.
        question: what the item asks.
        findings: most telling first.
        seen: what was measured, in one line, also where nothing is wrong.
        skipped: why the item could not mean anything here, or None.
        seconds: how long it took.
        facts: further measurements, for tools that read report.json.
        judged: ids of the rules that had evidence.
        unjudged: ids of those that had none, each with the reason.
        silenced: findings that the project has silenced or that its baseline knows, each with the reason.
        error: what of this package has failed, or None.
    """

    item: str
    question: str
    findings: list[Finding] = field(default_factory=list)
    seen: str = ""
    skipped: str | None = None
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    judged: list[str] = field(default_factory=list)
    unjudged: dict[str, str] = field(default_factory=dict)
    silenced: list[tuple[Finding, str]] = field(default_factory=list)
    error: str | None = None

    @property
    def counted(self) -> list[Finding]:
        """The findings that decide about the status."""
        return [finding for finding in self.findings if finding.severity != REMARK]

    @property
    def status(self) -> str:
        if self.error is not None:
            return ERROR
        return worst([finding.severity for finding in self.counted]) or (SKIPPED if self.skipped else PASSED)

    def then(self, name: str, further: "Verdict") -> "Verdict":
        """Return what it came to in this training and a further one, of the module class `name`."""
        judged = {*self.judged, *further.judged}
        return replace(
            self,
            findings=[*self.findings, *(each for each in further.findings if each not in self.findings)],
            seen=f"{self.skipped or self.seen}; then {name}: {further.skipped or further.seen}",
            skipped=further.skipped and self.skipped,
            facts=self.facts | {name: further.facts},
            judged=sorted(judged),
            unjudged={rule: why for rule, why in (further.unjudged | self.unjudged).items() if rule not in judged},
            silenced=[*self.silenced, *(each for each in further.silenced if each not in self.silenced)],
            error=self.error or further.error,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, as report.json has it."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        plain["findings"] = [finding.as_dict() for finding in self.findings]
        plain["silenced"] = [finding.as_dict() | {"reason": reason} for finding, reason in self.silenced]
        return {"item": self.item, "verdict": self.status} | plain

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Verdict":
        kept = {each.name: content[each.name] for each in fields(cls) if each.name in content}
        kept["findings"] = [Finding.from_dict(finding) for finding in content["findings"]]
        kept["silenced"] = [(Finding.from_dict(finding), finding["reason"]) for finding in content.get("silenced", [])]
        return cls(**kept)


INTERRUPTED = "not run: interrupted"  # why an item was skipped: the checklist was ended before its turn


def worst(statuses: list[str]) -> str | None:
    """Return the gravest of some statuses, or None of none."""
    return next((status for status in (FAILED, ERROR, WARNING, PASSED, SKIPPED) if status in statuses), None)
