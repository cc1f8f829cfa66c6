"""Carry ruff's fixes and formatting into the project's Python, which ruff can't read where Jinja stands in it."""

import subprocess
import sys
import tempfile
from pathlib import Path

TEMPLATE = Path(__file__).parents[1]
SOURCE = TEMPLATE / "{{cookiecutter.project}}"
# Names that occur nowhere else, so that they can be turned back.
PACKAGE, PROJECT = "digit_classifier", "digit-classifier"

with tempfile.TemporaryDirectory() as folder:
    command = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", folder, str(TEMPLATE)]
    subprocess.run([*command, f"project={PROJECT}", f"package={PACKAGE}"], check=True, stdout=subprocess.DEVNULL)
    generated = Path(folder) / PROJECT
    fixed = subprocess.run([sys.executable, "-m", "ruff", "check", "--fix"], cwd=generated)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet"], cwd=generated, check=True)
    paths = (path for folder in ("src", "tests", "examples") for path in (generated / folder).rglob("*.py"))
    for path in [*generated.glob("*.py"), *paths]:  # packages/ has no Jinja in it, and is formatted where it lies
        name = path.relative_to(generated).as_posix().replace(f"src/{PACKAGE}", "src/{{cookiecutter.package}}")
        text = path.read_text(encoding="utf-8").replace(PACKAGE, "{{ cookiecutter.package }}")
        text = text.replace(PROJECT, "{{ cookiecutter.project }}")
        if (SOURCE / name).read_text(encoding="utf-8") != text:
            (SOURCE / name).write_text(text, encoding="utf-8")
            print("formatted", name)
sys.exit(fixed.returncode)
