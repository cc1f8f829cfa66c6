"""Small projects that Hydra starts, for probes that look at a command, its config and its files.

The program runs in this process, as that of an item does: the config composes, the run's directory is made, and the
report is written.
"""

import io
import json
import linecache
import logging
import os
import runpy
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from training_checklist import session
from training_checklist.ending import OF_CHECKLIST
from training_checklist.finding import Verdict
from training_checklist.group import OWN, VARIABLE
from training_checklist.lab import code_reads
from training_checklist.lightning import isolate_rng
from training_checklist.settings import KEY
from training_checklist.starting.placement import JOB, Asked

FILES = {
    "train.py": """
import hydra
from hydra.utils import instantiate
from training_checklist.instruments import Small, loader
from training_checklist.lightning import Trainer


class Logging(Small):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("train/loss", loss, logger=not self.quiet)
        return loss

    def test_step(self, batch, batch_idx):
        pass


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    callbacks, loggers = ([instantiate(each) for each in part.values()] for part in (cfg.callbacks, cfg.logger))
    trainer, module = Trainer(**cfg.trainer, callbacks=callbacks, logger=loggers), Logging()
    module.quiet = cfg.quiet
    trainer.fit(module, loader(), ckpt_path=cfg.resume)
    if cfg.test:
        trainer.test(module, loader(), ckpt_path=cfg.tested)


main()
""",
    "conf/train.yaml": """
callbacks:
  checkpoint:
    _target_: pytorch_lightning.callbacks.ModelCheckpoint
    dirpath: ${hydra:runtime.output_dir}/checkpoints
logger:
  csv:
    _target_: pytorch_lightning.loggers.CSVLogger
    save_dir: ${hydra:runtime.output_dir}
trainer:
  accelerator: cpu
  enable_progress_bar: false
  enable_model_summary: false
quiet: false
resume: null
test: false
tested: null
""",
}


@dataclass(frozen=True)
class Job:
    """A command.

    Args:
        overrides: that are typed.
        files: of the project, other ones than those above.
        defaults: list of the main config.
        line: of code, before the training.
        raw: hydra.run.dir as the project has it; `outputs/now` is what it comes to.
    """

    overrides: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    defaults: tuple[str, ...] = ()
    line: str = ""
    raw: str = "outputs/${now:%H-%M-%S}"

    def write(self, folder: Path) -> Path:
        """Write its files into a folder, and return that."""
        listed = f"defaults: [{', '.join(f'{{{each}}}' if ':' in each else each for each in self.defaults)}]\n"
        main = {"conf/train.yaml": listed + FILES["conf/train.yaml"]} if self.defaults else {}
        if self.line:
            main["train.py"] = FILES["train.py"].replace("    trainer.fit", f"    {self.line}\n    trainer.fit", 1)
        for path, text in {**FILES, **main, **self.files}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        return folder


def inside(folder: Path, loaded: Callable[[], Iterable[Path]]) -> Iterator[Path]:
    """Yield those files of loaded modules that lie in a project: this process may have others of other programs."""
    yield from (path for path in loaded() if path.is_relative_to(folder))


def run(item: str, topics: Iterable[str], job: Job, chosen: Mapping[str, object]) -> Verdict:
    """Run a command with an item, and return the verdict.

    Args:
        topics: of the item, or probes.
        chosen: thresholds, by name.
    """
    settings = {"topics": f"[{','.join(topics)}]", **chosen}
    overrides = [f"++{KEY}.{item}.{name}={value}" for name, value in settings.items()]
    here, root = Path.cwd(), logging.getLogger()
    handlers, level = [*root.handlers], root.level
    # Hydra's configuration of logging switches off whoever has a logger already.
    loggers = [each for each in logging.Logger.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    disabled = [each for each in loggers if each.disabled]
    with TemporaryDirectory() as name, warnings.catch_warnings(), isolate_rng(), session.aside():
        warnings.simplefilter("ignore")
        folder = job.write(Path(name).resolve())
        asked = json.dumps(asdict(Asked(job.raw, folder / "outputs/now")), default=str)
        argv = ["train.py", f"+{OWN}={item}", "hydra.run.dir=outputs/now", *job.overrides, *overrides]
        os.chdir(folder)
        linecache.clearcache()  # there may have been another train.py
        logging.disable(logging.WARNING)
        try:
            with (
                patch.object(sys, "argv", argv),
                patch.object(code_reads, "loaded", partial(inside, folder, code_reads.loaded)),
                patch.dict(os.environ, {OF_CHECKLIST: name, JOB: asked, VARIABLE: OWN}),
                redirect_stdout(io.StringIO()),
                redirect_stderr(io.StringIO()),
                suppress(SystemExit),  # the verdict is in the report
            ):
                runpy.run_path("train.py", run_name="__main__")
            [report] = folder.rglob("report.json")
            return Verdict.from_dict(json.loads(report.read_text(encoding="utf-8"))["items"][0])
        finally:
            logging.disable(logging.NOTSET)
            os.chdir(here)
            root.handlers[:] = handlers
            root.setLevel(level)
            for each in loggers:
                each.disabled = each in disabled
            Asked.current = None
