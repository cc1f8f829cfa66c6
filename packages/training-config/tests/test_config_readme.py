"""Each example in the README of training-config says what stands below it."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from omegaconf import OmegaConf
from training_config.check import find_problems
from training_config.errors import ConfigError

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```(?:(?!```).)*```text\n(.*?)```", README, flags=re.DOTALL)
CHECK, ANNOTATIONS, REDACT, TRACE = EXAMPLES


def test_everything_that_is_wrong_comes_in_one_exception():
    code, said = CHECK
    with pytest.raises(ConfigError) as refused:
        exec(code, {})
    assert f"training_config.errors.ConfigError: {refused.value}\n" == said


def test_annotations_give_types_and_ranges(monkeypatch):
    code, said = ANNOTATIONS
    module = ModuleType("encoders")
    monkeypatch.setitem(sys.modules, "encoders", module)
    exec(code, vars(module))
    encoder = {"_target_": "encoders.Encoder", "width": 0, "dropout": 1.5}
    assert "\n".join(find_problems(OmegaConf.create({"encoder": encoder}))) + "\n" == said


def test_secrets_are_replaced():
    code, said = REDACT
    imports, *calls = ast.parse(code).body
    names: dict[str, object] = {}
    exec(ast.unparse(imports), names)
    assert "".join(f"{eval(ast.unparse(call), names)}\n" for call in calls) == said


def test_history_of_a_key_is_traced(tmp_path):
    code, said = TRACE
    command, answer = said.splitlines()
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    (tmp_path / "conf/optimizer").mkdir(parents=True)
    (tmp_path / "conf/optimizer/adam.yaml").write_text("_target_: torch.optim.Adam\nlr: 0.001\n", encoding="utf-8")
    main = "defaults:\n  - optimizer: adam\n  - _self_\n\nseed: 1\noptimizer:\n  lr: 0.01\n"
    (tmp_path / "conf/train.yaml").write_text(main, encoding="utf-8")
    _, _, *arguments = shlex.split(command)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    finished = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert finished.stdout == f"{answer}\n", finished.stderr
