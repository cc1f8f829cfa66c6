from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import RichProgressBar
from rich import get_console


class ProgressBar(RichProgressBar):
    """Lightning's, where the output is a terminal; elsewhere nothing is drawn, and `EpochLines` says how it goes.

    Epochs are counted from 1, as everywhere here; the version of a logger is not shown, it is the run's directory.
    """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if not get_console().is_terminal:
            self.disable()

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, int | str | float]:
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)
        return metrics

    def _get_train_description(self, current_epoch: int) -> str:
        return epoch_of(self.trainer)


def epoch_of(trainer: Trainer) -> str:
    """Return the number of the epoch, the first of which is 1, and of how many."""
    last = trainer.max_epochs
    return f"epoch {trainer.current_epoch + 1}" + (f"/{last}" if last is not None and last > 0 else "")
