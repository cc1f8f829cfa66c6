import html
import json
from urllib.parse import quote, quote_plus

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
        "accessToken",
        "clientSecret",
        "db.passwd",
        "pwd",
        "auth",
        "AWS_ACCESS_KEY_ID",
        "APIKey",
        "list.0.password",
        "credentials.user",
        "token2",
        "pass",
        "SMTP_PASS",
        "db.pw",
        "pat",
        "GITHUB_PAT",
        "otp",
        "sessionid",
        "web.session_id",
        "tokens",
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
        ("author", "Ada"),
        ("num_tokens", 512),
        ("tokens", 1_000_000),
        ("key", 3),
        ("bandpass", "low"),
        ("pattern", "*.png"),
        ("note", "user: me, host: here"),
        ("image", "python:3.12@sha256:0123456789abcdef"),
        ("contact", "mailto:me@host"),
        ("time", "12:30"),
        ("headers", "Authorization: Bearer ${oc.env:MINE}"),
        ("url", "/feed?page=2&size=3"),
        ("pad_token_id", 0),
        ("eosToken", "</s>"),
        ("public_key", "ssh-ed25519"),
        ("auth._target_", "company.Login"),
        ("url", "https://host/path?page=2"),
        ("url", "postgres://me:${oc.env:PG}@host/db"),
        ("token", "${service.token}"),
    ],
)
def test_other_values_are_none(key, value):
    assert not is_secret(key, value)


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"authorization: token {SECRET}",
        f"curl -H 'Authorization: Basic {SECRET}' http://host",
        f"Bearer {SECRET}",
        f"X-Api-Key: {SECRET}",
        f"GITHUB_PAT={SECRET}",
        f"https://host/blob?sv=2024&sig={SECRET}",
        f"/feed?token={SECRET}",
        f"data/part?X-Amz-Signature={SECRET}&n=1",
        f"me:{SECRET}@host/db",
        f"s3://me:{SECRET}@host/db",
    ],
)
def test_text_that_holds_a_secret_by_its_form_is_one_whatever_its_key(text):
    for content in ({"note": text}, {"headers": [text]}):
        assert SECRET not in str(redact(content))
        assert SECRET in secret_values(OmegaConf.create(content))


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
        (f"+a=[{{pwd: {SECRET}}}, {{b: 'c d'}}]", "+a=[{pwd: ${oc.env:A_PWD}}, {b: 'c d'}]"),
        (f"+a={{api_key: [x, {SECRET}]}}", "+a={api_key: [${oc.env:A_API_KEY}, ${oc.env:A_API_KEY}]}"),
        ("a.token=first,second", "a.token=${oc.env:A_TOKEN}"),
        (f"a.token=${{oc.env:MINE,{SECRET}}}", "a.token=${oc.env:MINE}"),
        (f"db=postgres://me:{SECRET}@host/db", "db=${oc.env:DB}"),
        (f"+headers=['Authorization: Bearer {SECRET}']", "+headers=[${oc.env:HEADERS}]"),
        (f"hydra.job.env_set.HF_TOKEN={SECRET}", "hydra.job.env_set.HF_TOKEN=${oc.env:HYDRA_JOB_ENV_SET_HF_TOKEN}"),
        ("--multirun", "--multirun"),
    ],
)
def test_override_keeps_all_but_its_secrets(given, kept):
    assert redact_override(given) == kept


def test_config_keeps_all_but_its_secrets_at_whatever_depth():
    content = {"logger": [{"api_key": SECRET, "name": "run"}], "seed": 1}
    assert redact(content) == {"logger": [{"api_key": "${oc.env:LOGGER_API_KEY}", "name": "run"}], "seed": 1}


def test_list_of_overrides_keeps_the_keys():
    assert redact(["seed=1", f"db=postgres://me:{SECRET}@host/db"]) == ["seed=1", "db=${oc.env:DB}"]


def test_longer_secret_is_hidden_whole_where_a_shorter_one_begins_it():
    assert redact_text("it is abcdef, not abc", {"abc", "abcdef"}) == "it is ***, not ***"


def test_secret_is_hidden_however_a_text_writes_it():
    secret = "a\"b'c&d e"
    texts = [json.dumps({"x": secret}), repr([secret]), html.escape(secret), quote(secret), quote_plus(secret)]
    assert [text for text in texts if "***" not in redact_text(text, {secret})] == []


def test_secret_that_an_address_encodes_is_hidden_where_it_is_decoded():
    secrets = secret_values(OmegaConf.create({"db": "postgres://me:p%40ss%2Fw0rd@host/db"}))
    assert redact_text("cannot connect as me with p@ss/w0rd", secrets) == "cannot connect as me with ***"


def test_short_secret_is_hidden_as_a_word_and_not_within_others():
    assert redact_text("abc in abcdef", {"abc"}) == "*** in abcdef"


def test_value_that_a_reference_leads_to_is_a_secret_too(monkeypatch):
    monkeypatch.setenv("PLAINLY_NAMED", "from-the-environment")
    config = OmegaConf.create({"token": "${oc.env:PLAINLY_NAMED}", "auth": "${login}", "login": {"user": "its-user"}})
    assert {"from-the-environment", "its-user"} <= secret_values(config)


def test_working_directory_and_switches_of_the_environment_are_no_secrets(monkeypatch):
    for name, value in (("PWD", "/a/folder"), ("USE_AUTH", "false"), ("SHORT_TOKEN", "abcd")):
        monkeypatch.setenv(name, value)
    assert not {"/a/folder", "false", "abcd"} & secret_values(OmegaConf.create({}))
