import pytest
import torch
import torch.nn.functional as F

from {{ cookiecutter.package }}.evaluation.figures import confusion_matrix, worst_mistakes

CLASSES = ["cat", "dog", "cow"]
LABELS = torch.tensor([0, 0, 1, 1, 2])
# Right, wrong, right, wrong and surer of it, wrong and less sure.
PROBABILITIES = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.0, 1.0, 0.0], [0.0, 0.1, 0.9], [0.4, 0.35, 0.25]])


def test_confusion_matrix_counts_predictions_of_every_label():
    axes = confusion_matrix(PROBABILITIES, LABELS, CLASSES).axes[0]
    counts = {(text.get_position()[::-1]): int(text.get_text()) for text in axes.texts}
    # (label, prediction); zeros are left out
    assert counts == {(0, 0): 1, (0, 1): 1, (1, 1): 1, (1, 2): 1, (2, 0): 1}
    assert axes.get_title() == "accuracy 40.00%"
    assert [label.get_text() for label in axes.get_yticklabels()] == CLASSES


def test_confusion_matrix_takes_classes_that_never_occur():
    axes = confusion_matrix(PROBABILITIES[:1], LABELS[:1], CLASSES).axes[0]
    assert [text.get_text() for text in axes.texts] == ["1"]


@pytest.mark.parametrize("channels", [1, 3])
def test_worst_mistakes_are_the_surest_first(channels):
    images = torch.zeros(5, channels, 4, 4, dtype=torch.uint8)
    figure = worst_mistakes(images, PROBABILITIES, LABELS, CLASSES, most=2)
    assert [axes.get_title() for axes in figure.axes] == ["cow (90%)\nis dog", "dog (60%)\nis cat"]
    assert figure.get_suptitle() == "3 mistakes in 5, the most confident"


def test_no_mistakes_are_a_figure_too(tmp_path):
    images = torch.zeros(5, 1, 4, 4, dtype=torch.uint8)
    figure = worst_mistakes(images, F.one_hot(LABELS).float(), LABELS, CLASSES, most=25)
    figure.savefig(tmp_path / "none.png")
    assert figure.get_suptitle() == "0 mistakes in 5"
