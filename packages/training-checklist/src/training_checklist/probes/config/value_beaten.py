from training_config.provenance import Setting

from training_checklist.instruments import Job, JobConfig, beaten, override_of, provenance
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for key, settings, set_by in beaten(config):
        last, wanted = settings[-1], override_of(set_by.value)
        if set_by.chosen:
            by, severity = set_by.option.replace("/", "="), None
            over = [f" and {override_of(each.value)} of {each}" for each in settings[:-1] if each is not set_by]
            place = Place(key=key, origin=f"{last} beats {wanted} of {set_by}{''.join(over)}")
            fix = Fix(f"the command line wins; for good: {order(config, key, last, set_by)}", (f"{key}={wanted}",))
        else:
            by, severity, place = set_by.file, WARNING, config.place(key)
            fix = Fix(f"move _self_ to the end of the defaults list in {by}, or remove the value there")
        yield Hit(f"{key} is {override_of(last.value)}, not {wanted} as {by} says", place, fix=fix, severity=severity)


def order(config: JobConfig, key: str, last: Setting, chosen: Setting) -> str:
    """Return how the defaults list would have to be."""
    group = chosen.option.rpartition("/")[0]
    if last.parent == chosen.option:
        return f"put _self_ at the end of the defaults list in {chosen.file}"
    if last.primary:
        return f"put _self_ above {group} in the defaults list of {last.file}, or remove {key} there"
    main = next((each.file for each in provenance(config).files if "/" not in each.option), last.file)
    return f"put {group} below {last.option.rpartition('/')[0] or last.option} in the defaults list of {main}"


def composed(*defaults: str, experiment: bool = True, longer: str = "") -> Job:
    files = {"conf/experiment/noted.yaml": "# @package _global_\nquiet: true\n"}
    files |= {"conf/trainer/longer.yaml": f"defaults: [{longer}]\nmax_epochs: 25\n"}
    files |= {"conf/trainer/short.yaml": "accelerator: cpu\nenable_progress_bar: false\nmax_epochs: 1\n"}
    files |= {"conf/trainer/auto.yaml": "accelerator: auto\n"}
    return Job(("experiment=noted",) if experiment else (), files, defaults)


def with_recipe(*chosen: str, default: str) -> Job:
    """Return a program one of whose groups sets values of another, `trainer`, of which the command line has one."""
    files = {
        "conf/recipe/plain.yaml": "{}\n",
        "conf/recipe/long.yaml": "# @package _global_\ntrainer: {max_epochs: 2}\n",
    }
    files |= {"conf/trainer/auto.yaml": "accelerator: auto\n", "conf/trainer/short.yaml": "max_epochs: 1\n"}
    listed = "# @package _global_\ndefaults: [{override /recipe: long}]\n"
    files |= {"conf/experiment/none.yaml": "{}\n", "conf/experiment/long.yaml": listed}
    defaults = "_self_", "trainer: auto", f"recipe: {default}", "experiment: none"
    return Job(("trainer=short", *chosen), files, defaults)


PROBE = Probe(
    question="Does each value that the command line, an experiment or the main config sets end up in the composed "
    "config?",
    why="a file that nobody chose overrules it without a word",
    fix=Fix("order the defaults list so that what is chosen comes last"),
    aliases=("config/chosen-value-beaten", "config/main-file-beaten"),
    detect=detect,
    faulty=composed("experiment: null", "_self_"),
    also_faulty=(
        composed("_self_", "trainer: auto", experiment=False),
        composed("trainer: longer", "_self_", experiment=False, longer="_self_, short"),
        with_recipe(default="long"),
    ),
    healthy=composed("_self_", "experiment: null"),
    also_healthy=(
        composed("trainer: auto", "_self_", experiment=False),
        composed("trainer: longer", "_self_", experiment=False, longer="short"),
        with_recipe("experiment=long", default="plain"),
    ),
)
