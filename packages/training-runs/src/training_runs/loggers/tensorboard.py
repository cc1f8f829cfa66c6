"""TensorBoard with training, validation and test in the same charts, and an HPARAMS tab that compares runs."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from pytorch_lightning import LightningModule, loggers
from pytorch_lightning.core.module import _jit_is_scripting
from pytorch_lightning.loggers.logger import rank_zero_experiment
from pytorch_lightning.utilities import rank_zero_only, rank_zero_warn

# Generated when tensorboard is built: a type checker does not see what is in them.
from tensorboard.compat.proto import event_pb2, summary_pb2
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

SPLITS = ("train", "val", "test", "best")


class TensorBoardLogger(loggers.TensorBoardLogger):
    """Writes `val/loss` as `loss` of the run's part `val`: TensorBoard draws what has one tag in one chart.

    `best` is validation at the best checkpoint. The HPARAMS tab shows the last value of every scalar beside the
    hyperparameters, for all runs below its logdir.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.writers: dict[str, LateWriter] = {}

    @property
    @rank_zero_experiment
    def experiment(self) -> "LateWriter":
        if self._experiment is None:
            self._experiment = LateWriter(self.log_dir, **self._kwargs)
        return self._experiment

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        for name, value in metrics.items():
            split, _, tag = name.partition("/")
            if split in SPLITS and tag:
                self._writer(split).add_scalar(tag, float(value), step)
            elif name != "epoch":  # Lightning adds it to everything; its chart says nothing
                super().log_metrics({name: value}, step)

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any], *arguments: Any, **options: Any) -> None:
        super().log_hyperparams(params)
        # Lightning writes them with metrics alone, of which the first run's would be the columns of all.
        _, start, _ = hparams(self._sanitize_params(params), {})
        self.experiment._get_file_writer().add_summary(start)

    @rank_zero_only
    def log_graph(self, model: LightningModule, input_array: Tensor | None = None) -> None:
        """Trace `model` on a batch of images; one that cannot be traced has no graph, and says so.

        One that is sharded has none: only this process would go through it. Nor has one that is compiled in place:
        torch traces none.
        """
        # Lightning's own call comes before there is a batch.
        if input_array is None or any(is_sharded(module) or is_compiled(module) for module in model.modules()):
            return
        training = model.training
        try:
            with torch.no_grad(), _jit_is_scripting(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the tracer, about constants
                self.experiment.add_graph(model.eval(), input_array)
        except Exception as error:  # as many kinds as there are networks
            rank_zero_warn(f"TensorBoard shows no graph: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        finally:
            model.train(training)

    @rank_zero_only
    def log_png(self, tag: str, path: Path, step: int) -> None:
        """Show an image file as it is; `add_figure` would draw a figure once more."""
        with Image.open(path) as image:
            width, height = image.size
        image = summary_pb2.Summary.Image(
            width=width, height=height, colorspace=3, encoded_image_string=path.read_bytes()
        )
        self.experiment._get_file_writer().add_summary(
            summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, image=image)]), step
        )

    @rank_zero_only
    def rewind(self, step: int) -> None:
        """Have TensorBoard hide what was logged at `step` or later: a resumed run logs it again."""
        parts = [split for split in SPLITS if (Path(self.log_dir) / split).is_dir()]
        # There is nothing to hide in a run that begins. Its own file may be there already: it logs hyperparameters.
        resumed = step or parts
        for writer in (self.experiment, *map(self._writer, parts)) if resumed else ():
            restart = event_pb2.Event(step=step, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START))
            writer._get_file_writer().add_event(restart)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        if self._experiment is not None and status == "success":
            *_, end = hparams({}, {})
            self.experiment._get_file_writer().add_summary(end)
        super().finalize(status)
        for writer in self.writers.values():
            writer.close()

    def _writer(self, split: str) -> "LateWriter":
        if split not in self.writers:
            self.writers[split] = LateWriter(str(Path(self.log_dir) / split), **self._kwargs)
        return self.writers[split]


def is_sharded(module: nn.Module) -> bool:
    return isinstance(module, (FSDPModule, FullyShardedDataParallel))


def is_compiled(module: nn.Module) -> bool:
    return module._compiled_call_impl is not None


class LateWriter(SummaryWriter):
    """Makes its file when something is written: Lightning asks for a writer first, also in a run that is refused."""

    is_made = False

    def _get_file_writer(self) -> Any:
        if not self.is_made:  # torch's constructor asks
            self.is_made = True
            return None
        return super()._get_file_writer()
