from typing import Any

from torch import Tensor
from torchmetrics import Metric
from torchmetrics.image import PeakSignalNoiseRatio

from training_checklist.instruments import MetricListener, TwoEpochs, Validated
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold


class Ranges(MetricListener):
    """Keeps the data_range of each metric that has one, and the least and largest target that it was given."""

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.found: dict[str, tuple[float, float, float, Place]] = {}
        self.before_update(self._look)

    def _look(self, path: str, metric: Metric, given: dict[str, Any]) -> None:
        asked, target = getattr(metric, "data_range", None), given["target"]
        if isinstance(asked, (int, float, Tensor)) and target.numel():
            low, high = map(float, target.detach().aminmax())
            place = self.place(path, metric)
            _, least, most, place = self.found.get(path, (0.0, low, high, place))
            self.found[path] = float(asked), min(low, least), max(high, most), place


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    found = run.heard().found
    if not found:
        raise CannotJudge("no metric has a data_range")
    for path, (asked, low, high, place) in found.items():
        span = high - low
        if span and not span / limits.beyond <= asked <= span * limits.unused:
            yield Hit(f"{path} has data_range={asked:g}, and its targets go from {low:.3g} to {high:.3g}", place)


def measured(data_range: float) -> type[Validated]:
    class Measured(Validated):
        def __init__(self) -> None:
            super().__init__()
            self.psnr = PeakSignalNoiseRatio(data_range=data_range)

        def validation_step(self, batch: list, batch_idx: int) -> None:
            answers = self(batch[0])
            self.psnr.update(answers[:, 0].sigmoid(), (batch[1] / 3).float())  # from 0 to 1
            self.log("val/psnr", self.psnr)

    return Measured


PROBE = Probe(
    question="Is data_range of each metric (PSNR, SSIM) the range of the values that it gets?",
    why="a PSNR is off by 20 log10 of the factor, 48 dB for 255 in place of 1; an SSIM is near 1 for any image, or its "
    "constants do nothing",
    listener=Ranges,
    detect=detect,
    fix=Fix("data_range=1.0 for images from 0 to 1, 2.0 from -1 to 1, 255 for bytes"),
    thresholds={
        "unused": Threshold(
            16.0,
            "the square root of 255, by which bytes and shares of 1 differ: dark images leave much of it unused",
            factor=1.5,
            faulty=measured(20.0),
            healthy=measured(13.0),
        ),
        "beyond": Threshold(
            1.5,
            "of the range: between 1, beyond which bicubic interpolation leads by less than a fifth on each side, and "
            "2, that of images from -1 to 1",
            factor=1.3,
            faulty=measured(0.55),
            healthy=measured(0.8),
        ),
    },
    faulty=measured(255.0),
    healthy=measured(1.0),
)
