"""What a command that is refused says, for the files of this folder."""

from collections.abc import Callable

import pytest


@pytest.fixture
def told(capfd):
    """`told(script)`: what a command says on stderr that ends with exit code 1 and no traceback."""

    def run(script: Callable[[], None]) -> str:
        with pytest.raises(SystemExit) as exited:
            script()
        said = capfd.readouterr().err
        if isinstance(exited.value.code, str):  # Python prints it, and exits with 1
            said += exited.value.code
        else:
            assert exited.value.code == 1
        assert "Traceback" not in said
        return said

    return run
