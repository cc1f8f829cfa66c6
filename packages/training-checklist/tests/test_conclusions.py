"""One cause is told once, with its witnesses."""

from training_checklist.finding import FAILED, WARNING, Finding, Place, Verdict
from training_checklist.reporting.conclusions import conclusions


def finding(rule, severity=FAILED, symptom=False, **place):
    return Finding(rule, severity, f"seen by {rule}", Place(**place), "", symptom=symptom)


def test_findings_at_one_place_are_one_thing():
    rate = {"key": "optimizer.lr", "value": "10"}
    verdicts = [
        Verdict("gradients", "", [finding("gradients/update-too-large", symptom=True)]),
        Verdict("overfit", "", [finding("overfit/rate-too-high", **rate)]),
        Verdict("learning", "", [finding("learning/rate-too-high", **rate)]),
    ]
    [only] = conclusions(verdicts)
    assert (only.item, only.finding.rule) == ("overfit", "overfit/rate-too-high")
    assert [item for item, _ in only.witnesses] == ["learning", "gradients"]


def test_two_causes_stay_two_and_a_symptom_that_fits_neither_stands_for_itself():
    verdicts = [
        Verdict("trace", "", [finding("network/unregistered", module="net.extra")]),
        Verdict("config", "", [finding("config/unread", key="optimizer.momentum")]),
        Verdict("overfit", "", [finding("overfit/not-memorised", symptom=True)]),
        Verdict("gradients", "", [finding("gradients/none", symptom=True, module="net.extra")]),
    ]
    found = conclusions(verdicts)
    assert [each.finding.rule for each in found] == ["network/unregistered", "config/unread", "overfit/not-memorised"]
    assert [item for item, _ in found[0].witnesses] == ["gradients"]


def test_same_crash_of_several_items_is_one_thing_and_a_warning_is_none():
    crash = finding("crash/matrix-product", file="net.py", line=7)
    verdicts = [Verdict(item, "", [crash, finding("a/b", WARNING)]) for item in ("trace", "device")]
    [only] = conclusions(verdicts)
    assert str(only).startswith("seen by crash/matrix-product (net.py:7): trace [crash/matrix-product]")
