"""Draw the README's pictures anew: what the commands print, in colour.

python docs/pictures.py <a generated project with its .venv>
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 116
PICTURES = {
    "run": ("train.py", "data=mnist_sample", "+experiment=baseline"),
    "checklist": ("train.py", "data=mnist_sample", "+debug=checklist"),
}


def draw(name: str, command: tuple[str, ...], project: Path) -> None:
    python = os.environ.get("PYTHON", ".venv/bin/python")
    # A terminal's colours without a terminal: no progress bar that draws itself anew.
    environment = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    no_bar = ("callbacks.progress_bar=null", "++trainer.enable_progress_bar=false") if name == "run" else ()
    options = {"cwd": project, "env": environment, "encoding": "utf-8"}
    printed = subprocess.run([python, *command, *no_bar], stdout=subprocess.PIPE, **options).stdout
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text(f"$ python {' '.join(command)}\n", "bold"))
    console.print(Text.from_ansi(printed.strip("\n")))
    svg = console.export_svg(title=" ")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # a picture that loads nothing
    Path(__file__).with_name(f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[2:] or PICTURES:
        draw(name, PICTURES[name], Path(sys.argv[1]).resolve())
