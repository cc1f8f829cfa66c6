"""What a page of documentation tells its reader to do: files to write, commands to type."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# A fenced block, with the name of the file that it is, if the line above it is one.
BLOCK = re.compile(r"^(?:`(\S+/\S+\.\w+)`\n\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    path: str | None
    language: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command that the reader types, without comments."""
        lines = self.text.splitlines() if self.language == "bash" else []
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks(text: str) -> Iterator[Block]:
    for match in BLOCK.finditer(text):
        yield Block(*match.groups())


def follow(text: str, folder: Path) -> list[list[str]]:
    """Write the files of the page into `folder`, none of which may exist, and return the commands."""
    commands = []
    for block in blocks(text):
        if block.path is not None:
            (folder / block.path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / block.path).open("x", encoding="utf-8") as file:
                file.write(block.text)
        commands += block.commands
    return commands
