from omegaconf import OmegaConf

from {{ cookiecutter.package }}.debug.secret_values import secret_values, starred


def test_values_of_telling_names_are_secrets_and_others_are_not(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "from-the-environment")
    logger = {"api_key": "in-the-config", "keys": ["harmless-1"], "password": "${oc.env:SOME_API_KEY}"}
    config = OmegaConf.create({"logger": logger, "pad_token": "<padding>", "n_token": 5, "monitor": "harmless-2"})
    found = secret_values(config)
    assert {"in-the-config", "from-the-environment"} <= found
    assert not {"harmless-1", "harmless-2", "<padding>", "5"} & found


def test_secrets_become_stars_whole_ones_first():
    assert starred("abcdef abc", {"abc", "abcdef"}) == "*** ***"
