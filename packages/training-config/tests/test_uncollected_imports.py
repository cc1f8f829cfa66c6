import gc
import subprocess
import sys

from training_config.uncollected_imports import uncollected_imports

FRESH = """
import gc
from training_config.uncollected_imports import uncollected_imports

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
