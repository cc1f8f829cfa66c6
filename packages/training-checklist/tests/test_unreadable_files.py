"""A YAML that does not parse is an answer with its file and line, not a traceback."""

import subprocess
import sys

import pytest

TRAIN = """
import hydra


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    print("began")


main()
"""


@pytest.fixture
def answer(tmp_path):
    def run(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "conf" / "data").mkdir(parents=True)
        (tmp_path / "train.py").write_text(TRAIN)
        (tmp_path / "conf" / "train.yaml").write_text("defaults: [{data: digits}, _self_]\n")
        (tmp_path / "conf" / "data" / "digits.yaml").write_text(text)
        command = [sys.executable, "train.py", "+checklist=config"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return run


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("batch_size: 64\nworkers: 0\nbatch_size: 32\n", "conf/data/digits.yaml:3", "twice, first in line 1"),
        ("batch_size: [64\nworkers: 0\n", "conf/data/digits.yaml:2", "cannot be read"),
        ("batch_size: 64\n\tworkers: 0\n", "conf/data/digits.yaml:2", "cannot be read"),
    ],
)
def test_file_that_does_not_parse_is_named_with_its_line(answer, text, place, said):
    done = answer(text)
    assert done.returncode == 1
    told = done.stdout + done.stderr
    assert place in told
    assert said in told
    assert "Traceback" not in told
    assert "began" not in told
