from difflib import get_close_matches

from training_checklist.instruments import Job, JobConfig, calls, override, unknown_arguments
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for call in calls(config):
        for name in unknown_arguments(call.given(), call.parameters, config.code):
            near, takes, key = get_close_matches(name, call.parameters, n=3), [*call.parameters], f"{call.key}.{name}"
            hint = f"it takes {', '.join(takes[:6])}{' and more' * (len(takes) > 6)}"
            hint = f"did you mean {' or '.join(near)}?" if near else hint
            what = f"{key}={override(call.node, name)} is no argument of {call.callee}; {hint}"
            yield Hit(what, config.place(key), fix=Fix(overrides=(f"~{key}",)))


PROBE = Probe(
    question="Is every key beside a _target_ an argument of it?",
    why="calling it raises a TypeError",
    foretells_crash=True,
    fix=Fix("take it out"),
    detect=detect,
    faulty=Job(("+logger.csv.title=first",)),
    healthy=Job(("+logger.csv.name=first",)),
)
