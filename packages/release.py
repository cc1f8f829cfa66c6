"""Say which library a tag releases, for .github/workflows/release.yml.

python packages/release.py training-config-v0.2.0    prints folder=packages/training-config

Exit code 1 for any other version than that in the library's pyproject.toml.
"""

import sys
import tomllib
from pathlib import Path


def tags() -> dict[str, Path]:
    """Return the tag of each library's version, and its folder."""
    found = {}
    for path in sorted(Path(__file__).resolve().parent.glob("*/pyproject.toml")):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        found[f"{project['name']}-v{project['version']}"] = path.parent
    return found


if __name__ == "__main__":
    [tag] = sys.argv[1:]
    if tag not in tags():
        sys.exit(f"{tag} names no version that is in packages/: expected {', '.join(tags())}")
    print(f"folder=packages/{tags()[tag].name}")
