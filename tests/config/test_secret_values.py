import pytest
from omegaconf import OmegaConf
from training_config.secret_values import is_secret, redact, redact_override, redact_text, secret_values

SECRET = "5ecret-0123456789"


@pytest.mark.parametrize(
    "key",
    [
        "logger.wandb.api_key",
        "WANDB_API_KEY",
        "HF_TOKEN",
        "token",
        "db.password",
        "client_secret",
        "a.access-key",
        "x.key",
    ],
)
def test_value_under_a_telling_name_is_a_secret(key):
    assert is_secret(key, SECRET)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model.tokenizer", "bert"),
        ("model.max_tokens", 512),
        ("model.pad_token", "<pad>"),
        ("sort_key", "name"),
        ("logger.wandb.api_key", "${oc.env:WANDB_API_KEY}"),
        ("logger.wandb.api_key", None),
        ("logger.wandb.api_key", "???"),
        ("use_token", True),
        ("monitor", "val/accuracy"),
    ],
)
def test_other_values_are_none(key, value):
    assert not is_secret(key, value)


def test_secrets_of_the_config_and_of_the_environment_are_found_and_others_are_not(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "from-the-environment")
    logger = {"api_key": "in-the-config", "keys": ["harmless-1"], "password": "${oc.env:SOME_API_KEY}"}
    config = OmegaConf.create({"logger": logger, "pad_token": "<padding>", "monitor": "harmless-2"})
    found = secret_values(config)
    assert {"in-the-config", "from-the-environment"} <= found
    assert not {"harmless-1", "harmless-2", "<padding>"} & found


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("optimizer.lr=0.1", "optimizer.lr=0.1"),
        (f"+a.api_key={SECRET}", "+a.api_key=${oc.env:A_API_KEY}"),
        ("++a={user: me, password: " + SECRET + "}", "++a={user: me, password: ${oc.env:A_PASSWORD}}"),
        (f"hydra.job.env_set.HF_TOKEN={SECRET}", "hydra.job.env_set.HF_TOKEN=${oc.env:HYDRA_JOB_ENV_SET_HF_TOKEN}"),
        ("--multirun", "--multirun"),
    ],
)
def test_override_keeps_all_but_its_secrets(given, kept):
    assert redact_override(given) == kept


def test_config_keeps_all_but_its_secrets_at_whatever_depth():
    content = {"logger": [{"api_key": SECRET, "name": "run"}], "seed": 1}
    assert redact(content) == {"logger": [{"api_key": "${oc.env:LOGGER_API_KEY}", "name": "run"}], "seed": 1}


def test_longer_secret_is_hidden_whole_where_a_shorter_one_begins_it():
    assert redact_text("it is abcdef, not abc", {"abc", "abcdef"}) == "it is ***, not ***"
