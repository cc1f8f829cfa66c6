import shutil
import sys
from pathlib import Path

import pytest
import torch

from {{ cookiecutter.package }}.data.mnist import read_sample
from {{ cookiecutter.package }}.evaluation import export


@pytest.fixture
def exported(trained, evaluate, capsys):
    """`exported(form)`: what eval.py says, and the files that it leaves."""

    def run(form: str, fails: bool = False) -> tuple[str, list[Path]]:
        if fails:
            with pytest.raises(SystemExit):
                evaluate(f"run={trained.as_posix()}", f"export={form}")
        else:
            evaluate(f"run={trained.as_posix()}", f"export={form}")
        said = capsys.readouterr()
        return said.err if fails else said.out, list((trained / "eval" / "best").glob("model.*"))

    yield run
    shutil.rmtree(trained / "eval", ignore_errors=True)


def test_exported_model_classifies_images_as_they_are_stored(exported):
    said, [path] = exported("torch_export")
    assert "256 test images, largest difference 0" in said
    images, labels = read_sample(train=False)
    for count in (1, 100):
        probabilities = torch.export.load(path).module()(images[:count])
        assert probabilities.shape == (count, 10)
        assert torch.allclose(probabilities.sum(dim=1), torch.ones(count))
    assert (probabilities.argmax(dim=1) == labels[:100]).float().mean() > 0.8


def test_file_that_answers_otherwise_than_the_model_is_not_kept(exported, monkeypatch):
    monkeypatch.setattr(export, "TOLERANCE", -1.0)
    said, files = exported("torch_export", fails=True)
    assert "export=torch_export: probabilities of the file differ by" in said
    assert files == []


def test_network_that_cannot_be_exported_is_an_error_of_one_line(exported, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("data-dependent branch\nand a page of advice")

    monkeypatch.setattr(torch.export, "export", fail)
    said, files = exported("torch_export", fails=True)
    assert "torch cannot export this network: RuntimeError: data-dependent branch\n" in said
    assert files == []


def test_form_whose_packages_are_not_installed_is_refused_with_the_way_to_install_them(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    said, files = exported("onnx", fails=True)
    assert "onnxruntime; install with: pip install -e '.[onnx]'" in said
    assert files == []


def test_unknown_form_is_refused(exported):
    said, _ = exported("tflite", fails=True)
    assert "export=tflite must be one of onnx, torch_export" in said
