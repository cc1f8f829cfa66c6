import re
import sys

import pytest
from in_project import TEMPLATE
from omegaconf import open_dict
from training_config.errors import ConfigError
from training_runs.start.entry_point import missing_plugins
from training_runs.start.feasibility import check_job

TEXTS = {
    path.relative_to(TEMPLATE / "conf").with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((TEMPLATE / "conf").glob("*/*.yaml"))
}


def found(pattern: str) -> dict[str, str]:
    """What `pattern` finds in the files where it finds something."""
    return {name: match[1] for name, text in TEXTS.items() if (match := re.search(pattern, text))}


# An option that needs packages says which extra of pyproject.toml brings them.
NEEDS = found(r"needs pip install -e '\.\[(\w+)\]'")
PLUGINS = found(r"override /(hydra/\w+: \w+)")


@pytest.mark.parametrize("option", [name.partition("/")[2] for name in NEEDS if name.startswith("logger/")])
def test_logger_without_its_package_is_refused_with_the_way_to_install_it(compose, option, monkeypatch):
    monkeypatch.setitem(sys.modules, option, None)  # as if it were not installed
    with pytest.raises(ConfigError, match=rf"logger\.{option}.*pip install -e '\.\[{option}\]'"):
        check_job(compose(f"logger={option}"), trains=False)


@pytest.mark.parametrize("name", [name for name in NEEDS if name in PLUGINS])
def test_plugin_that_is_not_installed_is_named_with_the_way_to_install_it(name):
    plugin = PLUGINS[name].replace(": ", "/")
    [line] = missing_plugins(f"In '{name}': Could not find '{plugin}'")
    assert line == f"{plugin} is not installed; install it with: pip install -e '.[{NEEDS[name]}]'"


def test_item_of_a_checklist_that_is_not_installed_does_not_train_instead(compose):
    cfg = compose()
    with open_dict(cfg):
        cfg.debug = "overfit"  # what Hydra makes of +debug=overfit where no group has that name
    with pytest.raises(ConfigError, match="debug=overfit must be an option of conf/debug, which training-checklist"):
        check_job(cfg, trains=False)
