from training_config.provenance import Setting

from training_checklist.instruments import Job, JobConfig, beaten, override_of, provenance
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for key, settings, chosen in beaten(config):
        if chosen.chosen:
            last, wanted, by = settings[-1], override_of(chosen.value), chosen.option.replace("/", "=")
            over = [f" and {override_of(each.value)} of {each}" for each in settings[:-1] if each is not chosen]
            place = Place(key=key, origin=f"{last} beats {wanted} of {chosen}{''.join(over)}")
            fix = Fix(f"the command line wins; for good: {order(config, key, last, chosen)}", (f"{key}={wanted}",))
            yield Hit(f"{key} is {override_of(last.value)}, not {wanted} as {by} says", place, fix=fix)


def order(config: JobConfig, key: str, last: Setting, chosen: Setting) -> str:
    """Return how the defaults list would have to be."""
    group = chosen.option.rpartition("/")[0]
    if last.parent == chosen.option:
        return f"put _self_ at the end of the defaults list in {chosen.file}"
    if last.primary:
        return f"put _self_ above {group} in the defaults list of {last.file}, or remove {key} there"
    main = next((each.file for each in provenance(config).files if "/" not in each.option), last.file)
    return f"put {group} below {last.option.rpartition('/')[0] or last.option} in the defaults list of {main}"


def composed(*defaults: str) -> Job:
    return Job(("experiment=noted",), {"conf/experiment/noted.yaml": "# @package _global_\nquiet: true\n"}, defaults)


PROBE = Probe(
    question="Does each value that the command line or an experiment sets end up in the composed config?",
    why="a file that nobody chose overrules it without a word",
    fix=Fix("order the defaults list so that what is chosen comes last"),
    detect=detect,
    faulty=composed("experiment: null", "_self_"),
    healthy=composed("_self_", "experiment: null"),
)
