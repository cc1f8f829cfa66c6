import gc
import subprocess
import sys

import pytest
from training_runs.start.uncollected_imports import uncollected_imports

FRESH = """
import gc
from training_runs.start.uncollected_imports import uncollected_imports

with uncollected_imports():
    assert not gc.isenabled()
    import torch
assert gc.isenabled()
assert gc.get_freeze_count() > 100_000
"""


def test_imports_are_made_without_collections_and_left_out_of_later_ones():
    subprocess.run([sys.executable, "-c", FRESH], check=True)


def test_process_that_has_torch_already_collects_as_before():
    before = gc.get_freeze_count()
    with uncollected_imports():
        assert gc.isenabled()
    assert gc.get_freeze_count() == before


LEAVING = """
import atexit, sys, threading
from pathlib import Path
from training_runs.start import entry_point
from training_runs.start.uncollected_imports import uncollected_imports

with uncollected_imports():
    pass
atexit.register(print, "exit handlers")
threading.Timer(0.1, print, ["threads"]).start()
entry_point.run(lambda: sys.exit({code!r}), Path(), "train")
"""


@pytest.mark.parametrize(("code", "expected"), [(None, 0), (0, 0), (130, 130), ("a reason", 1)])
def test_process_that_has_trained_ends_at_once_and_in_order(code, expected):
    command = [sys.executable, "-c", LEAVING.format(code=code)]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == expected
    assert finished.stdout.splitlines() == ["threads", "exit handlers"]
    assert finished.stderr.splitlines() == (["a reason"] if expected == 1 else [])
