from omegaconf import OmegaConf

from {{ cookiecutter.package }}.debug.secret_values import secret_values, shown_override, starred


def test_values_of_telling_names_are_secrets_and_others_are_not(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "from-the-environment")
    logger = {"api_key": "in-the-config", "keys": ["harmless-1"], "password": "${oc.env:SOME_API_KEY}"}
    config = OmegaConf.create({"logger": logger, "pad_token": "<padding>", "n_token": 5, "monitor": "harmless-2"})
    found = secret_values(config)
    assert {"in-the-config", "from-the-environment"} <= found
    assert not {"harmless-1", "harmless-2", "<padding>", "5"} & found


def test_secrets_become_stars_whole_ones_first():
    assert starred("abcdef abc", {"abc", "abcdef"}) == "*** ***"


def test_override_is_shown_without_its_secrets():
    assert shown_override("+logger.api_key=abc") == "+logger.api_key=***"
    assert shown_override("+logger={user: ada, password: abc}") == "+logger={user: ada, password: ***}"
    assert shown_override("optimizer.lr=0.1") == "optimizer.lr=0.1"
