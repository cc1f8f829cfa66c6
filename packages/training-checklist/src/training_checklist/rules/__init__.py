"""Every rule, in a file of its own below a folder of its topic: rules/data/label_out_of_range.py holds RULE.

A file that is put here is found by itself. A project's own rules are modules that it names in `checks.rules`.
"""

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache

from training_checklist.rule import Rule


@cache
def own_rules() -> tuple[Rule, ...]:
    """Return the rules of this package, by id."""
    modules = pkgutil.walk_packages(__path__, f"{__name__}.")
    found = (vars(importlib.import_module(each.name)).get("RULE") for each in modules if not each.ispkg)
    return tuple(sorted((rule for rule in found if rule is not None), key=lambda rule: rule.id))


def every_rule(modules: Iterable[str] = ()) -> dict[str, Rule]:
    """Return all rules by id, those of a project's own `modules` included.

    Raises:
        ImportError: there is no such module.
        ValueError: a module holds no RULE, or one with an id that is taken.
    """
    rules = {rule.id: rule for rule in own_rules()}
    for name in modules:
        rule = vars(importlib.import_module(name)).get("RULE")
        if not isinstance(rule, Rule):
            raise ValueError(f"checks.rules names {name}, which has no RULE = Rule(...)")
        if rules.setdefault(rule.id, rule) is not rule:
            raise ValueError(f"checks.rules names {name}, whose rule has the id of another one: {rule.id}")
    return rules
