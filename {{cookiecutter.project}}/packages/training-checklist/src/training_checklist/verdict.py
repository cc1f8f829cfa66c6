"""What a check says in the end. Plain data: nothing here imports torch."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from hydra.errors import CompactHydraException
from training_config.secret_values import redact_texts

PASSED, WARNING, FAILED, SKIPPED = "passed", "warning", "failed", "skipped"


class CheckFailed(CompactHydraException):
    """A check has failed. Hydra prints the message without a traceback and exits with 1."""


class FitEnded(Exception):
    """Training, which is all that a check asks for, is over. Ends the training function; a success."""


class Refused(CompactHydraException):
    """Debug items that cannot be run as they were asked for. Shown like `CheckFailed`, without a report."""


@dataclass(frozen=True)
class Finding:
    """One thing that a check has seen.

    Args:
        severity: FAILED or WARNING.
        what: what was seen, with its numbers.
        where: module path, parameter, batch index, rank, file and line: whatever leads to the place.
        why: why that matters.
        fix: what to do next, as an override or a command that works as printed.
    """

    severity: str
    what: str
    where: str
    why: str
    fix: str


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
    """

    item: str
    question: str
    findings: list[Finding] = field(default_factory=list)
    seen: str = ""
    skipped: str | None = None
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> str:
        return worst([finding.severity for finding in self.findings]) or (SKIPPED if self.skipped else PASSED)

    def as_dict(self) -> dict[str, Any]:
        return {"item": self.item, "verdict": self.status} | asdict(self)

    def without(self, secrets: Iterable[str]) -> "Verdict":
        """Return the verdict as plain data has it, with stars for secrets in its texts."""
        plain = json.loads(json.dumps(self.as_dict(), default=str))
        return self.from_dict(redact_texts(plain, secrets))

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Verdict":
        findings = [Finding(**finding) for finding in content["findings"]]
        kept = {key: value for key, value in content.items() if key not in ("verdict", "findings")}
        return cls(**kept, findings=findings)


def launched_rank() -> int:
    """Return the rank that a launcher gave this process, 0 where none did."""
    return int(next((os.environ[name] for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID") if name in os.environ), 0))


def worst(statuses: list[str]) -> str | None:
    """Return the gravest of some statuses, or None of none."""
    return next((status for status in (FAILED, WARNING, PASSED, SKIPPED) if status in statuses), None)
