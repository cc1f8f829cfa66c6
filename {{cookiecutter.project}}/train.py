"""Train what conf/train.yaml composes, test the best checkpoint, and record the run in its own directory.

python train.py                                    the defaults
python train.py optimizer=sgd optimizer.lr=0.02    other options and values
python train.py -m model=cnn,mlp seed=0,1,2        every combination, one run each
python train.py rerun=<run dir>                    the same run again: does it come to the same?
python train.py resume=last                        a run that stopped goes on
"""

from pathlib import Path

import hydra
from omegaconf import DictConfig

from {{ cookiecutter.package }}.training import command_line, resolvers
from {{ cookiecutter.package }}.training.launch import run_job
from {{ cookiecutter.package }}.training.rerun import original_config

resolvers.register()


def train(cfg: DictConfig) -> float | None:
    """Run one job and return its best value of `cfg.monitor`, for a sweeper to optimise."""
    # Imported here: --help, --cfg, completion and composition errors answer without torch.
    from hydra.utils import instantiate

    from {{ cookiecutter.package }}.training import console
    from {{ cookiecutter.package }}.training.devices import stop_searching_for_gpus
    from {{ cookiecutter.package }}.training.launch import check_launched
    from {{ cookiecutter.package }}.training.monitor_check import MonitorCheck
    from {{ cookiecutter.package }}.training.run_record import RunRecord
    from {{ cookiecutter.package }}.training.seed import seed_everything

    console.silence_known_warnings()
    stop_searching_for_gpus()
    check_launched(cfg)
    if cfg.print_config:
        console.print_config(cfg)
    with RunRecord(cfg) as record:
        seed_everything(cfg.seed, deterministic=bool(cfg.trainer.get("deterministic")))
        datamodule = instantiate(cfg.data)
        model = instantiate(cfg.model)
        callbacks = [instantiate(part) for part in cfg.get("callbacks", {}).values() if part is not None]
        loggers = [instantiate(part) for part in cfg.get("logger", {}).values() if part is not None]
        trainer = instantiate(cfg.trainer, callbacks=[*callbacks, MonitorCheck(cfg), record], logger=loggers)
        trainer.fit(model, datamodule=datamodule, ckpt_path=record.resume_point, weights_only=True)
        if cfg.test:
            best = record.best_checkpoint
            trainer.test(model, datamodule=datamodule, ckpt_path=best, weights_only=True, verbose=False)
    console.print_summary(record.metrics, record.pointers())
    return record.metrics.get(cfg.monitor)


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> float | None:
    return run_job(train, original_config(cfg), __file__)


if __name__ == "__main__":
    command_line.run(main, Path(__file__).parent / "conf", "train")
