"""No file of a run holds a secret, whatever the config looks like that it stands in."""

import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_project import own_conftest
from training_config.overrides import quoted
from training_runs.records.redaction import redact_file

SECRET = "5ecret-0123456789"
SMALL = ("callbacks=[checkpoint,figures]", "logger=[csv,tensorboard]", "figures=false", "print_config=true")

TELLING = """
    password passwd pwd passphrase token accessToken access_token refresh-token apiKey api_key apikey key secret auth
    clientSecret AWS_ACCESS_KEY_ID aws_secret_access_key privateKey credentials authorization webhook_url cookie
""".split()  # noqa: SIM905
HARMLESS = """
    author pad_token num_tokens max_tokens token_ids monitor sort_key tokenizer public_key name
""".split()  # noqa: SIM905
TRICKY = "'\"\\&<>%${}: ,[]\n\tä€"


class Planted:
    """A random nested config, the secrets in it, and what in it is none.

    Args:
        seed: of the generator; the same one plants the same.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.secrets: list[str] = []
        self.harmless: list[str] = []
        self.tree = self.branch(depth=2)
        self.tree["lst"] = [{"password": self.secret()}, {"name": self.word()}]
        self.tree["database"] = f"postgres://me:{self.secret(string.ascii_letters + '!@')}@host/db"
        self.tree["hub"] = f"https://{self.secret(string.ascii_letters)}@host/repository?access_token=" + self.secret(
            string.ascii_letters
        )

    def branch(self, depth: int) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for name in self.dice.sample(TELLING, 3):
            shapes: list[Callable[[], Any]] = [self.secret, self.number, self.several, self.below]
            content[name] = self.dice.choice(shapes)()
        for name in self.dice.sample(HARMLESS, 2):
            content[name] = self.word()
        for place in ("first", "second") if depth else ():
            below = self.branch(depth - 1)
            content[place] = self.dice.choice([below, [below, "word"], [[below]]])
        return content

    def secret(self, alphabet: str = string.ascii_letters + string.digits + TRICKY) -> str:
        # Not of one word that the run writes itself, such as "adam"; never empty at its ends, which YAML would strip.
        length = self.dice.choice([5, 6, 7, 20, 90])
        middle = "".join(self.dice.choices(alphabet, k=length - 4))
        self.secrets.append(self.letters(2) + middle + self.letters(2))
        return self.secrets[-1]

    def number(self) -> int:
        self.secrets.append(str(self.dice.randrange(10**8, 10**12)))
        return int(self.secrets[-1])

    def several(self) -> list[str]:
        return [self.secret(), self.secret()]

    def below(self) -> dict[str, Any]:
        return {"value": self.secret(), "more": [{"deep": self.secret()}]}

    def word(self) -> str:
        self.harmless.append("harmless" + self.letters(12))
        return self.harmless[-1]

    def letters(self, count: int) -> str:
        return "".join(self.dice.choices("QXZJKVWqxzjkvw", k=count))


def as_override(value: Any) -> str:
    """Return plain data as the command line has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {as_override(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_override, value)) + "]"
    return quoted(value.replace("${", "$ {")) if isinstance(value, str) else str(value)


def forms(secret: str) -> set[bytes]:
    """Return a secret as JSON, Python and plain text have it, which are no forms of one another."""
    texts = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    return {text.encode() for text in texts}


def holding(folder: Path, secrets: list[str]) -> list[tuple[str, str]]:
    """Return (file, secret) wherever a file below `folder` holds one."""
    contents = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return [
        (path.relative_to(folder).as_posix(), secret)
        for path, content in contents.items()
        for secret in secrets
        if any(form in content for form in forms(secret))
    ]


@pytest.fixture
def careless_run(script_in, tmp_path, monkeypatch):
    """`careless_run(planted, *overrides)`: the folder of a run that logs and raises what was planted."""

    def run(planted: Planted, *overrides: str) -> Path:
        monkeypatch.setenv("SOME_TOKEN", planted.secret(string.ascii_letters)[:7])
        planted.secrets[-1] = planted.secrets[-1][:7]
        monkeypatch.setenv("PLAINLY_NAMED", planted.secret(string.ascii_letters))
        monkeypatch.setenv("http_proxy", f"http://me:{planted.secret(string.ascii_letters)}@127.0.0.1:9")
        arguments = [
            *own_conftest().TINY,
            *SMALL,
            "+callbacks.talkative._target_=talkative.Talkative",
            f"+callbacks.talkative.told={as_override(planted.tree)}",
            f"+wandb.key={planted.secret(string.ascii_letters)}",
            f"+short.api_key={planted.secret(string.ascii_letters)[:5]}",
            "+referred.token=${oc.env:PLAINLY_NAMED}",
            "+brought.elsewhere=${wandb.key}/and/${referred.token}",
            f"+hydra.job.env_set.SERVICE_PASSWD={planted.secret(string.ascii_letters)}",
            *overrides,
        ]
        planted.secrets[-2] = planted.secrets[-2][:5]
        with pytest.raises(SystemExit):
            script_in(tmp_path, "train.py", *arguments)
        return tmp_path

    return run


@pytest.mark.parametrize("seed", range(4))
def test_no_file_of_a_run_holds_a_planted_secret(careless_run, seed):
    planted = Planted(seed)
    folder = careless_run(planted)
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"run.json", "config.yaml", "overrides.yaml", "hparams.yaml", "train.log", "report.html"} <= names
    assert any("tfevents" in name for name in names)
    assert holding(folder, planted.secrets) == []
    [config] = folder.rglob("config.yaml")
    kept = config.read_text(encoding="utf-8")
    assert [word for word in planted.harmless if word not in kept] == []


@pytest.mark.slow
def test_no_file_of_a_debug_item_or_a_sweep_holds_a_planted_secret(careless_run):
    planted = Planted(seed=4)
    folder = careless_run(planted, "+debug=config", "hydra.mode=MULTIRUN", "seed=1")
    assert {"report.json", "config.txt", "multirun.yaml"} <= {path.name for path in folder.rglob("*")}
    assert holding(folder, planted.secrets) == []


def test_a_project_names_further_secrets(careless_run):
    planted = Planted(seed=5)
    pin, session = planted.secret(string.ascii_letters), planted.secret(string.ascii_letters)
    names = "hydra.callbacks.redaction.names=[pin, '*_session']"
    folder = careless_run(planted, names, f"+card.pin={pin}", f"+web.mySession={session}")
    assert holding(folder, planted.secrets) == []


def test_file_without_secrets_is_not_touched(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("seed: 0   # a comment\n", encoding="utf-8")
    redact_file(path)
    assert path.read_text(encoding="utf-8") == "seed: 0   # a comment\n"


def test_secret_in_a_file_is_replaced_and_no_draft_is_left(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("data:\n  token: " + SECRET + "\n  seed: ${seed}\nseed: 0\n", encoding="utf-8")
    redact_file(path)
    assert path.read_text(encoding="utf-8") == "data:\n  token: ${oc.env:DATA_TOKEN}\n  seed: ${seed}\nseed: 0\n"
    assert [each.name for each in tmp_path.iterdir()] == ["config.yaml"]
