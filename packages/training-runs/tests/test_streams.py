import os
import subprocess
import sys

import pytest

PROGRAM = """
from training_runs.start.streams import outlive_readers
outlive_readers()
for number in range(3000):
    print("a line that is longer than a word •", number)
open("ended", "w").close()
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
@pytest.mark.parametrize("reader", ["full", "gone", "ascii"])
def test_process_goes_on_where_nothing_can_be_printed(reader, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    outputs = {"full": os.open("/dev/full", os.O_WRONLY), "gone": writing, "ascii": os.open(os.devnull, os.O_WRONLY)}
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        stdout=outputs[reader],
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        text=True,
    )
    for descriptor in outputs.values():
        os.close(descriptor)
    assert (finished.returncode, (tmp_path / "ended").exists()) == (0, True)
    assert ("standard output is lost" in finished.stderr) == (reader != "ascii")
