import pytest

from {{ cookiecutter.package }}.training import redaction

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
    assert redaction.is_secret(key, SECRET)


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
    assert not redaction.is_secret(key, value)


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
    assert redaction.redact_override(given) == kept


def test_file_without_secrets_is_not_touched(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("seed: 0   # a comment\n", encoding="utf-8")
    redaction.redact_file(path)
    assert path.read_text(encoding="utf-8") == "seed: 0   # a comment\n"


def test_secret_in_a_file_is_replaced_and_no_draft_is_left(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("data:\n  token: " + SECRET + "\n  seed: ${seed}\nseed: 0\n", encoding="utf-8")
    redaction.redact_file(path)
    assert path.read_text(encoding="utf-8") == "data:\n  token: ${oc.env:DATA_TOKEN}\n  seed: ${seed}\nseed: 0\n"
    assert [each.name for each in tmp_path.iterdir()] == ["config.yaml"]


def test_longer_secret_is_hidden_whole_where_a_shorter_one_begins_it():
    assert redaction.redact_text("it is abcdef", {"abc", "abcdef"}) == "it is ***"
