"""What SECURITY.md promises."""

import ast
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "{{cookiecutter.project}}"
LOCKS = sorted([*TEMPLATE.glob("locks/*.lock"), *ROOT.glob("requirements/*.txt")])
WORKFLOWS = sorted([*ROOT.glob(".github/workflows/*"), *TEMPLATE.glob(".github/workflows/*")])
SECRET = "5ecret-0123456789abcdef"

HOSTILE = [
    "$(touch PWNED)",
    "`touch PWNED`",
    "; touch PWNED #",
    "' && touch PWNED && '",
    '"); __import__("os").mkdir("PWNED") #',
    "'''); __import__('os').mkdir('PWNED') #",
    "\\'''); __import__('os').mkdir('PWNED') #",
    "$(shell touch PWNED)",
    "!!python/object/apply:os.mkdir [PWNED]",
    "${oc.env:HOME} %(HOME)s",
]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("answer", HOSTILE)
def test_hostile_answer_is_text_and_nothing_else(cookiecutter, tmp_path, answer):
    finished = cookiecutter(
        tmp_path / "out", project="p", **dict.fromkeys(("project_name", "author", "description"), answer)
    )
    assert finished.returncode == 0, finished.stderr
    project = tmp_path / "out" / "p"
    for path in project.rglob("*.yaml"):
        yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in project.rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"))
    subprocess.run(["make", "--dry-run", "--directory", project, "lint", "test"], capture_output=True, check=True)
    assert not [path for path in [*tmp_path.rglob("PWNED"), ROOT / "PWNED"] if path.exists()]


@pytest.mark.parametrize("question", ["license", "python_version", "logger", "ci", "container"])
def test_answer_that_is_none_of_the_choices_is_refused(cookiecutter, tmp_path, question):
    finished = cookiecutter(tmp_path, **{question: '"); __import__("os").mkdir("PWNED") #'})
    assert finished.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_hooks_start_no_shell_and_evaluate_nothing():
    for hook in ROOT.glob("hooks/*.py"):
        calls = [node for node in ast.walk(ast.parse(hook.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        names = {ast.unparse(call.func) for call in calls}
        assert names.isdisjoint({"eval", "exec", "compile", "__import__", "os.system", "os.popen"})
        assert not any(keyword.arg == "shell" for call in calls for keyword in call.keywords)


def test_generating_a_project_opens_no_connection(template, environment, tmp_path):
    # Python imports it in cookiecutter's process and in those of its hooks.
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\n"
        "def refuse(*arguments):\n"
        f"    open({str(tmp_path / 'connected')!r}, 'a').write(repr(arguments))\n"
        "    raise OSError('no network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", tmp_path / "out", template]
    finished = subprocess.run(command, env=environment | {"PYTHONPATH": str(tmp_path)}, capture_output=True)
    assert finished.returncode == 0
    assert not (tmp_path / "connected").exists()


@pytest.fixture(scope="module")
def told_secrets(project, tmp_path_factory) -> tuple[str, Path]:
    """What a command said that was given secrets in every way, and where its runs lie."""
    place = tmp_path_factory.mktemp("secrets")
    talks = project.folder / "src" / "talks.py"
    talks.write_text(
        "import logging, os\n"
        "from pytorch_lightning import Callback\n"
        "class Talks(Callback):\n"
        "    def __init__(self, api_key, account, token=None):\n"
        "        self.api_key = api_key\n"
        "    def on_fit_start(self, trainer, pl_module):\n"
        "        logging.getLogger(__name__).info('logged in with %s', self.api_key)\n"
        "    def on_fit_end(self, trainer, pl_module):\n"
        "        raise ValueError(f\"refused: {os.environ['WANDB_API_KEY']}\")\n",
        encoding="utf-8",
    )
    arguments = [
        *("data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "++trainer.limit_train_batches=1"),
        *("logger=[csv,tensorboard]", "print_config=true", "+callbacks.talks._target_=talks.Talks"),
        f"+callbacks.talks.api_key={SECRET}",
        "+callbacks.talks.account={user: me, password: " + SECRET + "}",
        "+callbacks.talks.token=${oc.env:MY_TOKEN}",
        f"+hydra.job.env_set.SERVICE_TOKEN={SECRET}",
    ]
    within = project.environment | {"WANDB_API_KEY": SECRET, "MY_TOKEN": SECRET}
    command = [project.python, "train.py", "-m", *arguments, f"hydra.sweep.dir={place}/sweep", "seed=1,2"]
    finished = subprocess.run(command, cwd=project.folder, env=within, capture_output=True, encoding="utf-8")
    talks.unlink()  # other tests look at the same project
    assert "ValueError: refused" in finished.stderr, finished.stderr
    return finished.stdout + finished.stderr, place / "sweep"


def test_secrets_are_in_no_file_of_a_run_or_sweep(told_secrets):
    _, sweep = told_secrets
    files = [path for path in sweep.rglob("*") if path.is_file()]
    written = {"run.json", "config.yaml", "overrides.yaml", "hydra.yaml", "multirun.yaml", "hparams.yaml", "train.log"}
    assert written <= {path.name for path in files}
    assert [str(path) for path in files if SECRET.encode() in path.read_bytes()] == []


def test_secrets_are_not_printed_by_the_project(told_secrets):
    told, _ = told_secrets
    lines = [line for line in told.splitlines() if SECRET in line]
    # Hydra lists a sweep's overrides as they were given, and what the callback raises is its own.
    assert [line for line in lines if "[HYDRA]" not in line and "refused: " not in line] == []


def test_saved_config_says_which_variable_has_the_secret(told_secrets):
    _, sweep = told_secrets
    saved = yaml.safe_load((sweep / "0/.hydra/config.yaml").read_text(encoding="utf-8"))["callbacks"]["talks"]
    assert saved["api_key"] == "${oc.env:CALLBACKS_TALKS_API_KEY}"
    assert saved["account"] == {"user": "me", "password": "${oc.env:CALLBACKS_TALKS_ACCOUNT_PASSWORD}"}
    assert saved["token"] == "${oc.env:MY_TOKEN}"


def test_record_is_whole_but_for_the_secret(told_secrets):
    _, sweep = told_secrets
    record = json.loads((sweep / "0/run.json").read_text(encoding="utf-8"))
    assert record["state"] == "failed"
    assert "+callbacks.talks.api_key=${oc.env:CALLBACKS_TALKS_API_KEY}" in record["overrides"]
    assert "trainer.max_epochs=1" in record["overrides"]
    assert record["error"] == "ValueError: refused: ***"


@pytest.mark.parametrize("lock", LOCKS, ids=relative)
def test_every_package_of_a_lock_is_pinned_with_hashes(lock):
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert lines
    if lines[0] == "--find-links wheels":  # a folder of the project, whose files are hashed as all others are
        del lines[0]
    assert [line for line in lines if not re.match(r"[\w.\[\]-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)] == []


@pytest.mark.parametrize("makefile", [ROOT / "Makefile", TEMPLATE / "Makefile"], ids=relative)
def test_locks_are_installed_with_hash_checking(makefile):
    text = makefile.read_text(encoding="utf-8").replace("\\\n", " ")
    text = text.replace("$(PIP)", "".join(re.findall(r"PIP := (.*)", text)))
    installs = [line for line in text.splitlines() if re.search(r"pip .*-r ", line)]
    assert installs
    assert all("--require-hashes" in line for line in installs)


@pytest.fixture
def wheel(tmp_path) -> Path:
    """A package of one module, ready to be installed."""
    path = tmp_path / "wheels" / "harmless-1.0-py3-none-any.whl"
    path.parent.mkdir()
    content = {
        "harmless.py": "",
        "harmless-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: harmless\nVersion: 1.0\n",
        "harmless-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "harmless-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    return path


def install_locked(wheel: Path, sha256: str) -> subprocess.CompletedProcess[str]:
    """Install the wheel with pip as the Makefile does, from a lock that announces `sha256`; offline."""
    lock = wheel.parents[1] / "requirements.lock"
    lock.write_text(f"harmless==1.0 --hash=sha256:{sha256}\n", encoding="utf-8")
    options = ["--disable-pip-version-check", "--require-hashes", "--no-index", "--find-links", wheel.parent]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", wheel.parents[1] / "site", "-r", lock]
    return subprocess.run(command, capture_output=True, encoding="utf-8")


def test_wheel_with_the_locked_hash_is_installed(wheel):
    finished = install_locked(wheel, hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert finished.returncode == 0, finished.stderr
    assert (wheel.parents[1] / "site/harmless.py").is_file()


def test_wheel_that_was_tampered_with_is_refused(wheel):
    locked = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("planted.py", "")
    finished = install_locked(wheel, locked)
    assert finished.returncode != 0
    assert "DO NOT MATCH THE HASHES" in finished.stderr
    assert not (wheel.parents[1] / "site").exists()


def test_lock_with_a_doctored_hash_is_refused(wheel):
    finished = install_locked(wheel, "0" * 64)
    assert finished.returncode != 0
    assert "DO NOT MATCH THE HASHES" in finished.stderr
    assert not (wheel.parents[1] / "site").exists()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=relative)
def test_workflow_pins_every_action_by_commit(workflow):
    used = re.findall(r"uses:\s*(.*)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}\s+# v\d\S*", action)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=relative)
def test_workflow_asks_for_the_least_permissions(workflow):
    content = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert content["permissions"] == {"contents": "read"}
    for job in content["jobs"].values():
        # PyPI knows a publisher by an identity, which nothing of this repository can be changed with.
        publishes = any("uv publish" in step.get("run", "") for step in job["steps"])
        assert job.get("permissions") == ({"contents": "read", "id-token": "write"} if publishes else None)
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=relative)
def test_workflow_runs_nothing_that_a_pull_request_can_name(workflow):
    text = workflow.read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    assert set(content[True]) <= {"push", "pull_request", "schedule", "workflow_dispatch"}  # YAML reads `on` as true
    for job in content["jobs"].values():
        assert not any("${{" in step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("folder", [ROOT, TEMPLATE], ids=["template", "project"])
def test_updates_and_hooks_are_configured_and_promises_are_written_down(folder):
    updates = yaml.safe_load((folder / ".github/dependabot.yml").read_text(encoding="utf-8"))
    assert "github-actions" in {update["package-ecosystem"] for update in updates["updates"]}
    hooks = yaml.safe_load((folder / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert all(re.match(r"v\d", repository["rev"]) for repository in hooks["repos"])
    assert "not promised" in (folder / "SECURITY.md").read_text(encoding="utf-8")


def test_every_test_that_a_promise_names_exists():
    named = re.findall(r"`([\w/.-]+\.py)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
