import re
from difflib import get_close_matches

from omegaconf import OmegaConf
from omegaconf.errors import InterpolationToMissingValueError, OmegaConfBaseException, UnsupportedInterpolationType
from training_config.walk import walk

from training_checklist.instruments import DOTTED, Job, JobConfig, as_written
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    keys = [full_key for full_key, _, _ in walk(config.job)]
    for full_key, parent, key in walk(config.job):
        try:
            _ = OmegaConf.is_interpolation(parent, key) and parent[key]
        except InterpolationToMissingValueError:
            continue  # told by what it leads to
        except OmegaConfBaseException as error:
            if isinstance(error, UnsupportedInterpolationType) and is_registered(config, str(error)):
                continue
            # It may be there only where a scheduler starts the job, say; unless the code resolves all of the config.
            if config.code.is_guarded(full_key) and "resolve" not in config.code.own_words:
                continue
            message, raw = str(error).splitlines()[0], as_written(parent, key)
            variable = re.search(r"Environment variable '(\w+)'", message)
            words = [word for word in DOTTED.findall(raw) if word not in keys]
            near = [match for word in words for match in get_close_matches(word, keys, n=1)]
            fix = Fix("write ${" + near[0] + "}") if near else Fix(overrides=(f"{full_key}=VALUE",))
            fix = fix if variable is None else Fix(f"set the variable {variable[1]} before the command")
            yield Hit(f"{full_key}={raw} does not resolve: {message}", config.place(full_key), fix=fix)


def is_registered(config: JobConfig, message: str) -> bool:
    """Whether the code registers the resolver that an error misses: it may do so when the job runs."""
    words = config.code.words
    return not words or ("register_new_resolver" in words and not words.isdisjoint(re.findall(r"\w+", message)))


PROBE = Probe(
    question="Does every interpolation ${...} resolve to a value?",
    why="the run ends as soon as the value is read",
    predicts_crash=True,
    fix=Fix("give the key a value"),
    detect=detect,
    faulty=Job(("quiet=${tset}",)),
    healthy=Job(("quiet=${test}",)),
    also_healthy=(Job(("tested=${oc.env:NAME_OF_NO_VARIABLE}",)),),
)
