"""Refuses answers that would make a broken project: all of them at once, before a file is written.

Cookiecutter makes the folder before it runs this hook, and removes it when the hook fails. Of `a/b` it would remove
only the last part, so `__project` in cookiecutter.json keeps an answer that names no single folder, and puts a name
in its place that nobody has.
"""

import json
import keyword
import re
import sys
import unicodedata

# tojson leaves no quote ' in its text, and a raw string hands json the backslashes as they are.
ANSWERS = json.loads(r'''{{ cookiecutter | tojson }}''')  # fmt: skip
ANSWERS["project"] = ANSWERS["__project"]

# Windows keeps these names for devices, in any case and with any extension.
WINDOWS = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}

# The project's own folders and scripts: a package of that name would hide one, or be hidden by it.
TOP_LEVEL = set("conf conftest data docs eval examples multirun outputs src test tests train wheels".split())  # noqa: SIM905

# Import and distribution names, normalised, of what the project imports or is likely to have beside it.
DEPENDENCIES = set(
    """
    absl absl-py alembic annotated-types antlr4 antlr4-python3-runtime click cloudpickle contourpy cv2 cycler docker
    editables filelock flask fonttools fsspec functorch git gitpython graphene grpc grpcio hatchling
    huggingface-hub hydra hydra-core hydra-joblib-launcher hydra-optuna-sweeper hydra-plugins
    hydra-ray-launcher hydra-submitit-launcher jinja2 joblib jsonargparse kiwisolver lightning
    lightning-fabric lightning-utilities markdown markupsafe matplotlib mlflow mlflow-skinny mpmath networkx
    numpy nvidia omegaconf onnx onnxruntime onnxscript opencv-python optuna packaging pandas pil pillow pip
    pkg-resources platformdirs pluggy pre-commit protobuf psutil pyarrow pydantic pydantic-core pygments pylab pyparsing
    pyrefly pytest pytorch-lightning pyyaml ray requests rich ruff safetensors scikit-image scikit-learn scipy
    seaborn sentry-sdk setuptools six skimage sklearn skops sqlalchemy submitit sympy tensorboard
    tensorboardx tensorflow timm torch torchaudio torchgen torchmetrics torchvision tqdm
    training-checklist training-config training-runs transformers triton
    typing-extensions typing-inspection urllib3 uv wandb webdataset werkzeug wheel yaml
    """.split()  # noqa: SIM905, a literal would take a hundred lines
)

# Less than the standard allows; no more than a package's metadata takes.
EMAIL = re.compile(r"[\w!#$%&*+/=?^~-]+(\.[\w!#$%&*+/=?^~-]+)*@[\w-]+(\.[\w-]+)*", re.ASCII)


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


project, package = ANSWERS["project"], ANSWERS["package"]

# (question, is the answer bad?, why and what would do)
rules = [
    (
        "project",
        not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?", project),
        "does not name a folder and a distribution; use at most 64 letters, digits, '.', '_' and '-', "
        "with a letter or digit first and last, such as 'digit-classifier'",
    ),
    (
        "project",
        project.split(".")[0].lower() in WINDOWS,
        "is the name of a device on Windows; use another, such as 'digit-classifier'",
    ),
    (
        "project",
        normalised(project) in DEPENDENCIES,
        f"is a package that the project may install; use another name, such as '{project}-project'",
    ),
    (
        "package",
        not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", package),
        "is not an import name in snake_case; use at most 32 of a-z, 0-9 and '_', with a letter first, "
        "such as 'digit_classifier'",
    ),
    (
        "package",
        package in keyword.kwlist + keyword.softkwlist,
        f"is a Python keyword; use another name, such as '{package}_net'",
    ),
    (
        "package",
        package in sys.stdlib_module_names,
        f"hides a module of Python's standard library; use another name, such as '{package}_net'",
    ),
    (
        "package",
        normalised(package) in DEPENDENCIES,
        f"hides a package that the project may install; use another name, such as '{package}_project'",
    ),
    (
        "package",
        package in TOP_LEVEL,
        f"is a folder or script of the project itself; use another name, such as '{package}_project'",
    ),
    (
        "package",
        package in WINDOWS,
        "is the name of a device on Windows; use another, such as 'digit_classifier'",
    ),
    (
        "project_name",
        not ANSWERS["project_name"].strip(),
        "is empty; use a name such as 'Digit Classifier'",
    ),
    (
        "email",
        ANSWERS["email"] != "" and not EMAIL.fullmatch(ANSWERS["email"]),
        "is not one e-mail address; use one such as 'ada@example.org', or leave it empty",
    ),
]
for question in ("project_name", "author", "description"):
    answer = ANSWERS[question]
    rules += [
        (
            question,
            # Control characters, line and paragraph separators, bytes that are not UTF-8.
            any(unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") for character in answer),
            "contains a line break or a control character; use one line of plain text",
        ),
        (
            question,
            # `cruft update` renders the answers again.
            re.search(r"\{[%#{]", answer),
            "contains Jinja's opening braces; put a space between '{' and the next character",
        ),
    ]

problems = [f"{question}={ANSWERS[question]!r} {reason}" for question, bad, reason in rules if bad]
if problems:
    sys.exit("\n".join(problems))
