"""Test a finished run, or predict with it, from its own directory.

python eval.py run=last                       test metrics, predictions and figures of the newest run
python eval.py run=<directory> ckpt=last      of another run, its last checkpoint
python eval.py run=last predict=<file>        predict for new samples: a file, or a folder of files
python eval.py run=last export=onnx           a file that runs without this code; or torch_export
python eval.py summary=last                   the table, figures and report of the newest sweep
"""

from pathlib import Path

import hydra
from omegaconf import DictConfig
from training_runs.records.runs import find_checkpoint, find_run
from training_runs.start import entry_point, resolvers
from training_runs.sweeps.sweep_summary import find_sweep, summarise

from digit_classifier import class_folders

resolvers.register()
class_folders.register()


@hydra.main(version_base="1.3", config_path="conf", config_name="eval")
def main(cfg: DictConfig) -> None:
    from training_runs.start.refusals import one_line

    with one_line(cfg):
        if cfg.summary is not None:
            summarise(find_sweep(cfg.summary))
            return
        evaluate(cfg, find_run(cfg.run))


def evaluate(cfg: DictConfig, run: Path) -> None:
    """Test, predict or export with a checkpoint of a run."""
    checkpoint = find_checkpoint(run, cfg.ckpt)
    # Imported here: --help, --cfg, completion, summaries and most mistakes are answered without torch.
    from digit_classifier.evaluation.evaluate import export_run, predict_files, test_run

    if cfg.predict is not None:
        predict_files(run, checkpoint, Path(str(cfg.predict)), cfg)
    elif cfg.export is not None:
        export_run(run, checkpoint, cfg)
    else:
        test_run(run, checkpoint, cfg)


if __name__ == "__main__":
    entry_point.run(main, Path(__file__).parent / "conf", "eval")
