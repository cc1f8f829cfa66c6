import shutil
import sys

import pytest
import torch


@pytest.fixture
def refused(trained, evaluate, capsys):
    """`refused(form)`: what eval.py says where it exports nothing; no file is left."""

    def run(form: str) -> str:
        with pytest.raises(SystemExit):
            evaluate(f"run={trained.as_posix()}", f"export={form}")
        assert not list((trained / "eval" / "best").glob("model.*"))
        return capsys.readouterr().err

    yield run
    shutil.rmtree(trained / "eval", ignore_errors=True)


def test_network_that_cannot_be_exported_is_an_error_of_one_line(refused, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("data-dependent branch\nand a page of advice")

    monkeypatch.setattr(torch.export, "export", fail)
    assert "torch cannot export this network: RuntimeError: data-dependent branch\n" in refused("torch_export")


def test_form_whose_packages_are_not_installed_is_refused_with_the_way_to_install_them(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    assert "onnxruntime; install with: pip install -e '.[onnx]'" in refused("onnx")


def test_unknown_form_is_refused(refused):
    assert "export=tflite must be one of onnx, torch_export" in refused("tflite")
