"""The remarks on a run: what they need is gathered when the Trainer has ended, and judged when the run has."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.loggers import CSVLogger
from training_config.overrides import key_of

from training_runs.records import resume
from training_runs.records.runs import is_job_of_sweep, read_record, script, shortest
from training_runs.remarks.answers import constant_answer, is_cross_entropy
from training_runs.remarks.evidence import Commands, Evidence, read_points
from training_runs.remarks.rules import remarks_on
from training_runs.start.console import say

SHOWN = 3  # lines under a summary of some ten


class RunRemarks:
    """Gathers the evidence of one run; nothing of the Trainer is kept, nothing is done while steps are taken."""

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg
        self.facts: dict[str, Any] = {"answers": {}}
        self.table: Path | None = None
        self.failure: str | None = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Keep what goes wrong here from a run that has trained well."""
        try:
            yield
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def fitted(self, trainer: Trainer, module: LightningModule) -> None:
        with self.aside():
            logger = next((logger for logger in trainer.loggers if isinstance(logger, CSVLogger)), None)
            self.table = None if logger is None else Path(logger.log_dir) / "metrics.csv"
            self.facts |= {
                "cross_entropy": is_cross_entropy(module),
                "cut": is_cut(trainer),
                "longer": longer(trainer, self.cfg),
                "scheduled": any(not config.reduce_on_plateau for config in trainer.lr_scheduler_configs),
            }
            self.note_answers(trainer, "train", trainer.train_dataloader, trainer.num_training_batches)
            self.note_answers(trainer, "val", trainer.val_dataloaders, sum(trainer.num_val_batches))

    def tested(self, trainer: Trainer) -> None:
        with self.aside():
            self.note_answers(trainer, "test", trainer.test_dataloaders, sum(trainer.num_test_batches))

    def note_answers(self, trainer: Trainer, split: str, loader: Any, batches: float) -> None:
        classes = getattr(trainer.datamodule, "num_classes", None)
        classes = classes if isinstance(classes, int) and classes > 1 else None
        answer = constant_answer(loader, batches * trainer.world_size, classes, self.facts.get("cross_entropy", False))
        if answer is not None:
            self.facts["answers"][split] = answer

    def judge(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return `remarks` for the record of a run that has ended, or nothing where nothing is asked.

        Not of a run under a debug item, which is shaped for that item's question.
        """
        remarks = None
        with self.aside():
            remarks = self.remarks(record)
        if self.failure is not None:
            say(f"no remarks on this run, which is a fault of training-runs: {self.failure}")
            return {}
        return {} if remarks is None else {"remarks": remarks}

    def remarks(self, record: Mapping[str, Any]) -> list[dict[str, str]] | None:
        overrides = record["overrides"]
        if self.cfg.rerun is not None:  # which takes no other override beside it
            overrides = read_record(Path(self.cfg.rerun))["overrides"]
        if not self.cfg.get("remarks", True) or any(key_of(override) == "debug" for override in overrides):
            return None
        folder = Path(self.cfg.output_dir)
        evidence = Evidence(
            points={} if self.table is None else read_points(self.table),
            metrics=record["metrics"],
            monitor=self.cfg.monitor,
            mode=self.cfg.mode,
            commands=Commands(
                script=script(),
                overrides=overrides,
                run=None if resume.checkpoint(folder) is None else str(shortest(folder)),
                items=debug_items(),
            ),
            **self.facts,
        )
        return [asdict(remark) for remark in remarks_on(evidence)]


def described(folder: Path, remarks: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the remarks to show in a terminal, each under its id; of a job of a sweep one line."""
    if is_job_of_sweep(folder):
        return {remark["id"]: remark["what"] for remark in remarks[:1]}
    return {remark["id"]: f"{remark['what']}\n{remark['next']}" for remark in remarks[:SHOWN]}


def is_cut(trainer: Trainer) -> bool:
    """Whether epochs of training, or training itself, were made shorter than their data is."""
    limit = trainer.limit_train_batches
    return bool(trainer.fast_dev_run) or trainer.overfit_batches != 0 or limit != 1.0


def longer(trainer: Trainer, cfg: DictConfig) -> str | None:
    """Return the override by which training is as long again, where it was its length that ended it."""
    if trainer.max_epochs is not None and 0 < trainer.max_epochs <= trainer.current_epoch:
        key, value = "max_epochs", 2 * trainer.max_epochs
    elif 0 < trainer.max_steps <= trainer.global_step:
        key, value = "max_steps", 2 * trainer.max_steps
    else:
        return None
    return f"{'' if key in cfg.trainer else '++'}trainer.{key}={value}"


def debug_items() -> list[str]:
    """Return the options of the config group `debug` that this application finds: none without the checklist."""
    hydra = GlobalHydra.instance()
    return hydra.config_loader().get_group_options("debug") if hydra.is_initialized() else []
