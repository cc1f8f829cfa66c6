"""All rules and probes by id. One is imported when it is asked for, and not before."""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib.resources import files

from omegaconf import OmegaConf

from training_checklist import probes, rules
from training_checklist.group import OWN
from training_checklist.probe import Probe
from training_checklist.rule import Question, Rule


class Catalogue(Mapping[str, Question]):
    """The rules and probes of this package and those of a project's own modules.

    Args:
        modules: of the project, each with a RULE or a PROBE.

    Raises:
        ImportError: there is no such module.
        ValueError: a module holds neither, or one with an id that is taken.
    """

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self.projects: dict[str, Question] = {}
        for name in modules:
            content = vars(importlib.import_module(name))
            found = content.get("PROBE", content.get("RULE"))
            if not isinstance(found, Question):
                raise ValueError(f"checks.rules names {name}, which has no RULE = Rule(...) and no PROBE = Probe(...)")
            taken = found.id in probes.names() or found.id in (rule.id for rule in rules.own_rules())
            if taken or self.projects.setdefault(found.id, found) is not found:
                raise ValueError(f"checks.rules names {name}, whose rule has the id of another one: {found.id}")

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """The rules of the older form."""
        projects = (each for each in self.projects.values() if isinstance(each, Rule))
        return {rule.id: rule for rule in (*rules.own_rules(), *projects)}

    def probes(self, item: str, topics: Iterable[str]) -> list[Probe]:
        """Return the probes of an item: those of its topics, and the project's own."""
        projects = [each for each in self.projects.values() if isinstance(each, Probe)]
        return [probe for probe in (*probes.of_topics(*topics), *projects) if probe.item == item]

    def of_item(self, item: str) -> list[Question]:
        """Return all that an item of this package, or of the project, asks."""
        path = files("training_checklist.conf") / OWN / f"{item}.yaml"
        config = OmegaConf.load(path) if path.is_file() else OmegaConf.create()
        for parts in ("callbacks", "hydra.callbacks"):
            topics = OmegaConf.select(config, f"{parts}.debug_{item}.topics")
            if topics is not None:
                return [*self.probes(item, topics), *(self.older(item) if rules.has_topic(*topics) else ())]
        return [*self.probes(item, ()), *self.older(item)]

    def older(self, item: str) -> list[Rule]:
        return [rule for rule in self.rules.values() if rule.item == item]

    def id_of(self, name: str) -> str:
        """Return the id of the rule that has this id or alias, and what nobody has as it is."""
        if name in self:
            return name
        return next((rule.id for rule in self.values() if name in rule.aliases), name)

    def __getitem__(self, name: str) -> Question:
        if name in probes.names():
            return probes.load(name)
        return self.projects[name] if name in self.projects else self.rules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*probes.names(), *self.rules, *self.projects}))

    def __contains__(self, name: object) -> bool:
        return name in probes.names() or name in self.projects or name in self.rules

    def __len__(self) -> int:
        return sum(1 for _ in self)
