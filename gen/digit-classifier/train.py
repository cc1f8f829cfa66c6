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
from training_runs.launching.launch import run_job
from training_runs.records import rerun, resume
from training_runs.start import entry_point, resolvers

from digit_classifier import class_folders

resolvers.register()
class_folders.register()


def train(cfg: DictConfig) -> float | None:
    """Run one job and return its best value of `cfg.monitor`, for a sweeper to optimise."""
    # Imported here: --help, --cfg, completion and composition errors answer without torch.
    from training_config.building import instantiate
    from training_runs.callbacks.monitor_check import MonitorCheck
    from training_runs.records.run_record import RunRecord
    from training_runs.start import console, gpu_search, seed
    from training_runs.start.refusals import one_line

    console.silence_known_warnings()
    gpu_search.stop_searching_for_gpus()
    if cfg.print_config:
        console.print_config(cfg)
    with RunRecord(cfg) as record, one_line(cfg):
        seed.seed_everything(cfg.seed, deterministic=bool(cfg.trainer.get("deterministic")))
        datamodule = instantiate(cfg.data)
        model = instantiate(cfg.model)
        callbacks = [instantiate(part) for part in cfg.get("callbacks", {}).values() if part is not None]
        loggers = [instantiate(part) for part in cfg.get("logger", {}).values() if part is not None]
        trainer = instantiate(cfg.trainer, callbacks=[MonitorCheck(cfg), record, *callbacks], logger=loggers)
        trainer.fit(model, datamodule=datamodule, ckpt_path=record.resume_point, weights_only=True)
        if cfg.test:
            best = record.best_checkpoint
            trainer.test(model, datamodule=datamodule, ckpt_path=best, weights_only=True, verbose=False)
    console.print_summary(record.metrics, record.pointers(evaluate="python eval.py run="))
    return record.metrics.get(cfg.monitor)


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> float | None:
    from training_runs.start.feasibility import check_job
    from training_runs.start.refusals import one_line

    with one_line(cfg):
        cfg = rerun.original_config(cfg)  # with rerun=<run dir>, the config of that run
        if resume.is_finished(cfg):  # a job of a sweep that is started again; resume=<a run that came to its end>
            return resume.recorded_value(cfg)
        cfg = resume.saved_config(cfg)  # where a run goes on, its own config with what is overridden now
        check_job(cfg)  # every mistake at once, before anything heavy runs
    return run_job(train, cfg, __file__)  # here, or in processes that each run this file


if __name__ == "__main__":
    entry_point.run(main, Path(__file__).parent / "conf", "train")
