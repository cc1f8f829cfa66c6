"""What the report says beside verdicts: settings of the project that have no effect any more."""

from training_checklist.finding import Verdict
from training_checklist.settings import KEY, KNOWN, Settings


def notes_on(verdicts: list[Verdict], settings: Settings) -> list[str]:
    """Return a line for each silencing of a rule that has judged and found nothing, and one for a stale baseline."""
    judged = {rule for verdict in verdicts for rule in verdict.judged}
    fired = {finding.rule for verdict in verdicts for finding, _ in verdict.silenced}
    notes = [
        f"{KEY}.silence.{rule} silences nothing: that rule finds nothing here any more; remove it"
        for rule in settings.silence
        if rule in judged - fired
    ]
    if settings.baseline is not None:
        known = {each.identity() for verdict in verdicts for each, reason in verdict.silenced if reason == KNOWN}
        gone = [entry for entry in settings.baseline - known if entry[0] in judged]
        notes += [f"{KEY}.baseline: {len(gone)} known findings are gone; write it anew"] if gone else []
    return notes
