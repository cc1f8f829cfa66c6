"""Run a project's train.py as it is, and write down the loss of every training step.

python loss_curve.py <file to write> <name of a logged metric, or -> train.py [overrides]
"""

import json
import runpy
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    target, metric, script, *overrides = sys.argv[1:]
    losses: list[float] = []
    watch(losses, None if metric == "-" else metric)
    sys.argv = [script, *overrides]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        Path(target).write_text(json.dumps(losses), encoding="utf-8")


def watch(losses: list[float], metric: str | None) -> None:
    """Let every Trainer, whichever namespace it comes from, append its steps' losses to `losses`."""
    import lightning.pytorch
    import pytorch_lightning

    for namespace in (lightning.pytorch, pytorch_lightning):

        class Watch(namespace.Callback):
            def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
                value = trainer.callback_metrics.get(metric) if metric is not None else outputs
                value = value["loss"] if isinstance(value, dict) else value
                if value is not None:
                    losses.append(float(value))

        add_to(namespace.Trainer, Watch)


def add_to(trainer: type, callback: type) -> None:
    init = trainer.__init__

    def with_callback(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        self.callbacks.append(callback())

    trainer.__init__ = with_callback


if __name__ == "__main__":
    main()
