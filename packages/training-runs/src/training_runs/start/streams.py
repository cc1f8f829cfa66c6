"""Standard output and error that stop no training: what cannot be shown there is not shown."""

import io
import os
import sys


def outlive_readers() -> None:
    """Have this process go on where nobody reads what it prints any more (`| head`), or the file for it is full.

    Letters that a terminal's encoding has not are written as their number.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper:  # not what a notebook or a test has put in its place
            options = {"encoding": stream.encoding, "line_buffering": stream.line_buffering}
            stream.flush()
            lasting = Lasting(stream.buffer, errors="backslashreplace", **options)
            lasting.before = stream  # which closes its buffer when it goes; who runs this program, as pdb, may hold it
            setattr(sys, name, lasting)
            setattr(sys, f"__{name}__", lasting)


class Lasting(io.TextIOWrapper):
    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self.leave(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self.leave(error)

    def leave(self, error: OSError) -> None:
        """Send what is printed from here on, by this process and those that it starts, nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        if self is sys.stdout:
            print(f"standard output is lost ({error.strerror}); this goes on without it", file=sys.stderr)
