"""All probes by id. One is imported when it is asked for, and not before."""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files

from omegaconf import OmegaConf

from training_checklist import probes
from training_checklist.group import OWN
from training_checklist.probe import Probe


class Catalogue(Mapping[str, Probe]):
    """The probes of this package and those of a project's own modules.

    Args:
        modules: of the project, each with a PROBE.

    Raises:
        ImportError: there is no such module.
        ValueError: a module holds none, or one with an id that is taken.
    """

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self.projects: dict[str, Probe] = {}
        for name in modules:
            found = vars(importlib.import_module(name)).get("PROBE")
            if not isinstance(found, Probe):
                raise ValueError(f"checks.rules names {name}, which has no PROBE = Probe(...)")
            if found.id in probes.names() or self.projects.setdefault(found.id, found) is not found:
                raise ValueError(f"checks.rules names {name}, whose rule has the id of another one: {found.id}")

    def probes(self, item: str, topics: Iterable[str]) -> list[Probe]:
        """Return the probes of an item: those of its topics, and the project's own."""
        return [probe for probe in (*probes.of_topics(*topics), *self.projects.values()) if probe.item == item]

    def of_item(self, item: str) -> list[Probe]:
        """Return all that an item of this package, or of the project, asks."""
        path = files("training_checklist.conf") / OWN / f"{item}.yaml"
        config = OmegaConf.load(path) if path.is_file() else OmegaConf.create()
        for parts in ("callbacks", "hydra.callbacks"):
            topics = OmegaConf.select(config, f"{parts}.debug_{item}.topics")
            if topics is not None:
                return self.probes(item, topics)
        return self.probes(item, ())

    def id_of(self, name: str) -> str:
        """Return the id of the rule that has this id or alias, and what nobody has as it is."""
        if name in self:
            return name
        return next((rule.id for rule in self.values() if name in rule.aliases), name)

    def __getitem__(self, name: str) -> Probe:
        return probes.load(name) if name in probes.names() else self.projects[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*probes.names(), *self.projects}))

    def __contains__(self, name: object) -> bool:
        return name in probes.names() or name in self.projects

    def __len__(self) -> int:
        return sum(1 for _ in self)
