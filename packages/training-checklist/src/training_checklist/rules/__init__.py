"""Every rule of the older form, in a file of its own below a folder of its topic. New ones are in `probes`."""

import importlib
import pkgutil
from functools import cache

from training_checklist.rule import Rule


@cache
def own_rules() -> tuple[Rule, ...]:
    """Return the rules of this package, by id."""
    modules = pkgutil.walk_packages(__path__, f"{__name__}.")
    found = (vars(importlib.import_module(each.name)).get("RULE") for each in modules if not each.ispkg)
    return tuple(sorted((rule for rule in found if rule is not None), key=lambda rule: rule.id))


def has_topic(*topics: str) -> bool:
    """Whether one of some topics has rules of the older form."""
    return any(each.ispkg and each.name in topics for each in pkgutil.iter_modules(__path__))
