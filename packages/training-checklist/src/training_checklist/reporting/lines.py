"""A verdict and a finding in lines, for every format."""

from training_checklist.finding import ERROR, Finding, Verdict

HELP = "This is a mistake of training-checklist, not of your code. Please report it with the lines above"


def summary(verdict: Verdict) -> str:
    """Return one line that says what an item came to."""
    if verdict.status == ERROR:
        return (verdict.error or "").splitlines()[0]
    if verdict.counted:
        more = f" (and {len(verdict.counted) - 1} more)" if len(verdict.counted) > 1 else ""
        return verdict.counted[0].what.splitlines()[0] + more
    remarks = len(verdict.findings)
    beside = [f"{remarks} remark{'s' * (remarks > 1)}"] if remarks else []
    beside += [f"{len(verdict.silenced)} silenced"] if verdict.silenced else []
    return (verdict.skipped or verdict.seen) + (f" ({', '.join(beside)})" if beside else "")


def rows(finding: Finding) -> list[tuple[str, str]]:
    near = "" if finding.place.spot or finding.place.origin else str(finding.near)
    found = [("where", finding.where), ("near", near), ("why", finding.why), ("next", finding.command)]
    return [(label, text) for label, text in found if text]
