import shutil

import pytest
import torch

from digit_classifier.data.mnist import read_sample
from digit_classifier.evaluation import export


@pytest.fixture
def files(trained):
    """`files()`: what exporting the trained run has left in it."""
    yield lambda: list((trained / "eval" / "best").glob("model.*"))
    shutil.rmtree(trained / "eval", ignore_errors=True)


def test_exported_model_classifies_images_as_they_are_stored(trained, evaluate, files, capsys):
    evaluate(f"run={trained.as_posix()}", "export=torch_export")
    [path] = files()
    assert "256 test images, largest difference 0" in capsys.readouterr().out
    images, labels = read_sample(train=False)
    for count in (1, 100):
        probabilities = torch.export.load(path).module()(images[:count])
        assert probabilities.shape == (count, 10)
        assert torch.allclose(probabilities.sum(dim=1), torch.ones(count))
    assert (probabilities.argmax(dim=1) == labels[:100]).float().mean() > 0.8


def test_file_that_answers_otherwise_than_the_model_is_not_kept(trained, evaluate, files, monkeypatch, capsys):
    monkeypatch.setattr(export, "TOLERANCE", -1.0)
    with pytest.raises(SystemExit):
        evaluate(f"run={trained.as_posix()}", "export=torch_export")
    assert "export=torch_export: probabilities of the file differ by" in capsys.readouterr().err
    assert files() == []
