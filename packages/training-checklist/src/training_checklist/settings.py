"""What a project asks of the checklist where that is not what it asks by itself: everything below `checks`.

checks:
  overfit: {max_loss: 0.1}                                    # a threshold of a rule, an argument of an item
  silence: {data/shared-samples: "burst photos of one scene"} # a rule, with the reason; the report shows it
  baseline: debug_baseline.json                               # findings that are known and do not fail
  rules: [my_package.rules.loss_range]                        # modules with probes of the project's own
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from training_config.near_names import suggestion

from training_checklist.catalogue import Catalogue
from training_checklist.finding import Finding
from training_checklist.group import OWN, groups
from training_checklist.probe import Probe

KEY = "checks"
READ = re.compile(rf"oc\.select:{KEY}\.(\w+)\.(\w+),")
KNOWN = "known to the baseline"


@dataclass(frozen=True)
class Settings:
    """What a project has set.

    Args:
        chosen: values by item and name: thresholds of rules and arguments of items.
        silence: the reason by the id of a rule.
        baseline: what is known, as `Finding.identity` has it; None where the project has no baseline.
        modules: that hold rules of the project's own.
    """

    chosen: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    silence: Mapping[str, str] = field(default_factory=dict)
    baseline: frozenset[tuple[str, ...]] | None = None
    modules: tuple[str, ...] = ()

    @cached_property
    def rules(self) -> Catalogue:
        return Catalogue(self.modules)

    def of_item(self, item: str) -> Mapping[str, Any]:
        return self.chosen.get(item, {})

    def reason_to_ignore(self, finding: Finding) -> str | None:
        """Return why a finding does not count, or None where it does."""
        if finding.rule in self.silence:
            return self.silence[finding.rule]
        return KNOWN if self.baseline is not None and finding.identity() in self.baseline else None


def read_settings(config: DictConfig) -> tuple[Settings, list[str]]:
    """Return what a job's config has below `checks`, and a line for each mistake in it."""
    content = OmegaConf.to_container(config.get(KEY) or OmegaConf.create({}), resolve=True)
    return _settings(content, arguments(config))


def check_settings(content: dict[str, Any], configs: Iterable[DictConfig]) -> tuple[Settings, list[str]]:
    """Return what a call has as `checks`, and a line for each mistake in it; `configs` are those of the items."""
    known = {found for config in configs for found in READ.findall(OmegaConf.to_yaml(config))}
    return _settings(content, known)


def _settings(content: dict[str, Any], known: set[tuple[str, str]]) -> tuple[Settings, list[str]]:
    silence, baseline = content.pop("silence", None) or {}, content.pop("baseline", None)
    modules = content.pop("rules", None) or ()
    modules = tuple(modules.values() if isinstance(modules, dict) else modules)
    try:
        rules = Catalogue(modules)
    except (ImportError, ValueError) as error:
        return Settings(), [f"{KEY}.rules={list(modules)}: {error}"]
    problems = [*unread(content, {*known, *thresholds(rules.of_item(item) for item in content)})]
    if problems:  # the nearest ones may be of other items
        problems = [*unread(content, {*known, *thresholds([rules.values()])})]
    silence = {rules.id_of(rule): reason for rule, reason in silence.items()}
    problems += wrongly_silenced(silence, rules)
    entries = None
    if baseline is not None:
        try:
            known_findings = json.loads(Path(baseline).read_text(encoding="utf-8"))["findings"]
            entries = frozenset((rules.id_of(rule), *place) for rule, *place in known_findings)
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(
                f"{KEY}.baseline={baseline} cannot be read ({type(error).__name__}: {error}); "
                f"python -m training_checklist baseline REPORT.json > {baseline} writes one"
            )
    settings = Settings({item: values for item, values in content.items() if values}, silence, entries, modules)
    return settings, problems


def wrongly_silenced(silence: Mapping[str, Any], rules: Catalogue) -> Iterator[str]:
    for rule, reason in silence.items():
        if rule not in rules:
            yield f"{KEY}.silence names {rule}, and there is no such rule{suggestion(rule, rules)}"
        elif not isinstance(reason, str) or not reason.strip():
            yield f"{KEY}.silence.{rule}={reason} gives no reason; write one: {rule}: why it may be ignored here"


def unread(content: Mapping[str, Any], known: set[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each setting that nothing reads, with the nearest ones that something does."""
    names = [f"{KEY}.{item}.{name}" for item, name in sorted(known)]
    for item, values in content.items():
        for name in values if isinstance(values, dict) else [""]:
            if (item, name) not in known:
                key = ".".join(part for part in (KEY, item, name) if part)
                yield f"{key} is read by no debug item{suggestion(key, names)}"


def thresholds(items: Iterable[Iterable[Probe]]) -> set[tuple[str, str]]:
    return {(rule.item, name) for rules in items for rule in rules for name in rule.thresholds}


def arguments(config: DictConfig) -> set[tuple[str, str]]:
    """Return (item, name) of every argument that items' configs, of this package and of the project, let be set."""
    own = (source.path for source in config.hydra.runtime.config_sources if source.schema == "file")
    folders = (files("training_checklist.conf") / OWN, *(Path(path) / name for path in own for name in groups()))
    paths = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    texts = (path.read_text(encoding="utf-8") for path in paths if path.name.endswith(".yaml"))
    return {found for text in texts for found in READ.findall(text)}
