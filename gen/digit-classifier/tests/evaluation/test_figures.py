import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import TensorDataset
from training_runs.figures import save

from digit_classifier.evaluation import figures

CLASSES = ["cat", "dog", "cow"]
LABELS = torch.tensor([0, 0, 1, 1, 2])
# Right, wrong, right, wrong and surer of it, wrong and less sure.
PROBABILITIES = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.0, 1.0, 0.0], [0.0, 0.1, 0.9], [0.4, 0.35, 0.25]])


def test_confusion_matrix_counts_predictions_of_every_label():
    axes = figures.confusion_matrix(PROBABILITIES, LABELS, CLASSES).axes[0]
    counts = {(text.get_position()[::-1]): int(text.get_text()) for text in axes.texts}
    # (label, prediction); zeros are left out
    assert counts == {(0, 0): 1, (0, 1): 1, (1, 1): 1, (1, 2): 1, (2, 0): 1}
    assert axes.get_title() == "accuracy 40.00%"
    assert [label.get_text() for label in axes.get_yticklabels()] == CLASSES


def test_confusion_matrix_takes_classes_that_never_occur():
    axes = figures.confusion_matrix(PROBABILITIES[:1], LABELS[:1], CLASSES).axes[0]
    assert [text.get_text() for text in axes.texts] == ["1"]


@pytest.mark.parametrize("channels", [1, 3])
def test_worst_mistakes_are_the_surest_first(channels):
    images = torch.zeros(5, channels, 4, 4, dtype=torch.uint8)
    axes = figures.worst_mistakes(TensorDataset(images), PROBABILITIES, LABELS, CLASSES, most=2).axes[0]
    assert [text.get_text() for text in axes.texts] == ["cow (90%)\nis dog", "dog (60%)\nis cat"]
    assert axes.get_title() == "3 mistakes in 5, the most confident"


def test_worst_mistakes_show_the_images_that_are_wrong():
    images = torch.arange(5, dtype=torch.uint8).view(5, 1, 1, 1).expand(5, 1, 4, 4)
    [picture] = (
        figures.worst_mistakes(TensorDataset(images), PROBABILITIES, LABELS, CLASSES, most=2).axes[0].get_images()
    )
    assert set(picture.get_array().flatten().tolist()) == {3, 1, 255}


def test_no_mistakes_are_a_figure_too(tmp_path):
    images = torch.zeros(5, 1, 4, 4, dtype=torch.uint8)
    figure = figures.worst_mistakes(TensorDataset(images), F.one_hot(LABELS).float(), LABELS, CLASSES, most=25)
    save(figure, tmp_path / "none")
    assert figure.axes[0].get_title() == "0 mistakes in 5"
    assert {path.name for path in tmp_path.iterdir()} == {"none.png", "none.svg"}


def test_calibration_shows_the_accuracy_of_each_confidence():
    # Four predictions with 0.95, three of which are right; one with 0.55 that is wrong.
    probabilities = torch.tensor([[0.95, 0.05]] * 4 + [[0.55, 0.45]])
    above, below = figures.calibration(probabilities, torch.tensor([0, 0, 0, 1, 1])).axes
    assert [bar.get_height() for bar in above.patches] == [0] * 9 + [0.75]
    assert [bar.get_height() for bar in below.patches] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 4]
    # (4 * |0.95 - 0.75| + 1 * |0.55 - 0|) / 5
    assert above.get_title() == "expected calibration error 27.00%"
