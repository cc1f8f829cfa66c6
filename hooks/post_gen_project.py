"""Turns the rendered tree into what was asked for: license, lock, CI and container or none, git repository."""

import shutil
import subprocess
import sys
from pathlib import Path

Path("licenses/{{ cookiecutter.license }}").replace("LICENSE")
shutil.rmtree("licenses")

# The base lock is that of TensorBoard.
lock = "{{ cookiecutter.logger }}".replace("tensorboard", "base")
Path(f"locks/{lock}.lock").replace("requirements.lock")
shutil.rmtree("locks")

if "{{ cookiecutter.ci }}" == "none":
    shutil.rmtree(".github")
if "{{ cookiecutter.container }}" == "none":
    shutil.rmtree(".devcontainer")
    Path("Dockerfile").unlink()
    Path(".dockerignore").unlink()

# cruft sets `_commit`. Its update and diff commands generate the project into temporary folders and compare
# these file by file, so that a .git folder would count as part of the template.
if "{{ '_commit' in cookiecutter }}" == "True":
    sys.exit()

in_work_tree = ["git", "rev-parse", "--is-inside-work-tree"]
if shutil.which("git") and subprocess.run(in_work_tree, capture_output=True).returncode != 0:
    # As a setting, because git before 2.28 has no --initial-branch.
    subprocess.run(["git", "-c", "init.defaultBranch=main", "init", "--quiet"])

print("Next steps:")
print("  cd {{ cookiecutter.project }}")
print("  make install")
print("  make train")
