"""What eval.py does with a run: everything is rebuilt from the run's own config and checkpoint."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from pydantic import NonNegativeInt, PositiveInt
from pytorch_lightning import LightningDataModule, LightningModule, Trainer
from training_config.building import instantiate
from training_config.check import find_problems
from training_config.errors import ConfigError
from training_runs.callbacks.progress_bar import ProgressBar
from training_runs.figures import save
from training_runs.records.runs import load_weights, read_checkpoint, read_config, shortest, strict
from training_runs.records.trust import check_trusted
from training_runs.start.console import print_summary, silence_known_warnings
from training_runs.start.feasibility import check_job, impossible_devices

from ..data.image_files import SUFFIXES, find_images
from ..file_names import printable
from . import contract, figures
from .export import check_form, export_model
from .predictions import write_numbers, write_predictions

SHOWN = 100  # files whose answer is a line in the terminal: more than that nobody reads there


def test_run(run: Path, checkpoint: Path, cfg: DictConfig) -> dict[str, float]:
    """Write test metrics, predictions and figures to the run; return the metrics.

    Metrics come first, of anything. Of the rest what `contract` finds possible; the summary says why something is not.

    Raises:
        ConfigError: there is nothing to test.
    """
    model, datamodule, trainer = rebuild(run, checkpoint, cfg)
    if why := contract.no_test(model, datamodule):
        raise ConfigError(f"{run}: nothing can be tested, since {why}")
    (metrics,) = trainer.test(model, datamodule=datamodule, verbose=False)
    source = getattr(datamodule, "source", None)
    content = {"checkpoint": str(checkpoint), "data": source, "metrics": metrics}
    output = output_dir(run, checkpoint)
    (output / "metrics.json").write_text(json.dumps(strict(content), indent=2) + "\n", encoding="utf-8")
    left_out = write_parts(model, datamodule, trainer, output, cfg)
    written = {path.name: str(shortest(path)) for path in sorted(output.iterdir())}
    print_summary(metrics, {"checkpoint": str(shortest(checkpoint))} | written | left_out)
    return metrics


def write_parts(
    model: LightningModule, datamodule: LightningDataModule, trainer: Trainer, output: Path, cfg: DictConfig
) -> dict[str, str]:
    """Write predictions and figures as far as they are possible; return the reason by the name of each that is not."""
    if why := contract.no_predictions(model, datamodule):
        return {"no predictions": why}
    batches = trainer.predict(model, datamodule=datamodule)
    if why := contract.no_table(batches):
        return {"no predictions": why}
    predictions = torch.cat(batches).cpu()
    labels = contract.labels_of(datamodule, predictions)
    why = contract.no_classes(datamodule, predictions)
    if labels is None and why is None:
        why = f"{type(datamodule).__name__} has no test_set.labels with what is right for each prediction"
    if why:
        write_numbers(output / "predictions.csv", predictions, labels)
        return {"no figures": why}
    classes, files = datamodule.class_names, getattr(datamodule.test_set, "names", ())  # where samples are files
    names = files or [str(index) for index in range(len(predictions))]
    said = contract.answers(datamodule, predictions), contract.answers(datamodule, labels)
    write_predictions(output / "predictions.csv", names, predictions, classes, *said)
    if not cfg.figures:
        return {}
    pictures = datamodule.test_set if hasattr(datamodule, "image_shape") else None
    drawn = figures.of_predictions(datamodule, predictions, labels, pictures, cfg.worst, files)
    for name, figure in drawn.items():
        save(figure, output / name)
    if pictures is not None:
        return {}
    return {"no worst_mistakes": f"{type(datamodule).__name__} has no image_shape: it has no images to show"}


def predict_files(run: Path, checkpoint: Path, place: Path, cfg: DictConfig) -> None:
    """Write predictions for a file, or those in a folder, to the run; print the class of each that is one sample."""
    model, datamodule, trainer = rebuild(run, checkpoint, cfg)
    if why := contract.no_predictions(model, datamodule):
        raise ConfigError(f"predict={printable(str(place))}: nothing can be predicted, since {why}")
    datamodule.predict_files = paths = files_at(place, datamodule)
    batches = trainer.predict(model, datamodule=datamodule)
    if why := contract.no_table(batches):
        raise ConfigError(f"predict={printable(str(place))}: {why}")
    predictions, answers = torch.cat(batches).cpu(), {}
    name = place.resolve().name if place.is_dir() else place.stem
    table = output_dir(run, checkpoint) / f"predictions_{printable(name)}.csv"
    if contract.no_classes(datamodule, predictions):
        write_numbers(table, predictions, labels=None)
    else:
        classes, said = datamodule.class_names, contract.answers(datamodule, predictions)
        names = [str(row) for row in range(len(predictions))]
        if len(paths) == len(predictions):  # a file is a sample
            names = [path.relative_to(place).as_posix() if path != place else path.name for path in paths]
            best = zip(names, said, predictions.amax(dim=1), strict=True)
            answers = {printable(name): f"{answer or 'none'}  ({share:.1%})" for name, answer, share in best}
        write_predictions(table, names, predictions, classes, said)
    more = {"further": f"{len(answers) - SHOWN} more"} if len(answers) > SHOWN else {}
    shown = dict(islice(answers.items(), SHOWN)) or {"it begins": beginning(table)}
    print_summary({}, shown | more | {"written": str(shortest(table))})


def beginning(table: Path) -> str:
    """Return a table's head and first rows, as much as a terminal shows."""
    with table.open(encoding="utf-8") as file:
        return "\n".join(printable(line.rstrip())[:110] for line in islice(file, 6))


def files_at(place: Path, datamodule: LightningDataModule) -> list[Path]:
    """Return the file at `place`, or those in the folder there and below it: images, where the data are images.

    Raises:
        ConfigError: there are none, or the DataModule reads no others than its own.
    """
    where, owner = printable(str(place)), type(datamodule).__name__
    if not hasattr(datamodule, "predict_files"):
        raise ConfigError(f"predict={where} cannot be read by {owner}: it has no predict_files, see docs/evaluation.md")
    images = hasattr(datamodule, "load_image")
    kind = f"images ({', '.join(SUFFIXES)})" if images else f"what {owner} reads"
    if place.is_file() and (not images or place.suffix.lower() in SUFFIXES):
        return [place]
    if not place.is_dir():
        raise ConfigError(f"predict={where} is no file and no folder; name one with {kind}")
    paths = find_images(place) if images else sorted(path for path in place.rglob("*") if path.is_file())
    if not paths:
        raise ConfigError(f"predict={where} holds nothing to predict for; put {kind} there")
    return paths


def export_run(run: Path, checkpoint: Path, cfg: DictConfig) -> None:
    """Write the run's model in the form `cfg.export`, and print how to use it."""
    check_form(cfg.export)
    model, datamodule, _ = rebuild(run, checkpoint, cfg)
    print_summary({}, export_model(model, datamodule, cfg.export, output_dir(run, checkpoint)))


def rebuild(run: Path, checkpoint: Path, cfg: DictConfig) -> tuple[LightningModule, LightningDataModule, Trainer]:
    """Return the run's trained model, its DataModule and a Trainer on one device that records nothing."""
    silence_known_warnings()
    check_choices(cfg)
    trained = read_config(run)
    lacking = [part for part in ("data", "model") if not OmegaConf.is_dict(trained.get(part))]
    if lacking:
        raise ConfigError(f"{run}: its config has no {' and no '.join(lacking)} to build; name another run")
    for unused in ("callbacks", "logger"):  # what they need may be missing here, such as a package or a password
        trained.pop(unused, None)
    check_trusted(trained, run, cfg)
    if "batch_size" in trained.data:
        trained.data.batch_size = cfg.batch_size
    content = read_checkpoint(checkpoint)
    trained.data.update(found_in_data(content))
    check_job(trained, trains=False)
    model = instantiate(trained.model)
    load_weights(model, content["state_dict"], checkpoint)
    trainer = Trainer(
        accelerator=cfg.accelerator,
        devices=1,
        logger=False,
        callbacks=[ProgressBar()],
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    return model, instantiate(trained.data), trainer


def check_choices(cfg: DictConfig) -> None:
    """Refuse values of conf/eval.yaml that cannot work.

    Raises:
        ConfigError: with one line for each.
    """
    types = {"batch_size": PositiveInt, "figures": bool, "worst": NonNegativeInt, "allow": list[str] | None}
    problems = find_problems(cfg, types)
    problems += [line.removeprefix("trainer.") for line in impossible_devices({"accelerator": cfg.accelerator})]
    if problems:
        raise ConfigError("\n".join(problems))


def found_in_data(content: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the data's config that the DataModule found in the data when it trained, such as classes.

    A DataModule tells them by `found` in its state; the images need not be there any more.
    """
    states = (value for value in content.values() if isinstance(value, dict))
    return next((state["found"] for state in states if "found" in state), {})


def output_dir(run: Path, checkpoint: Path) -> Path:
    """Return the folder for what is found out about `checkpoint`, made if need be.

    Raises:
        ConfigError: the checkpoint's name is nothing but dots.
    """
    folder = run / "eval" / checkpoint.stem.strip(".")  # that of ...ckpt would be the folder above
    if folder == run / "eval":
        raise ConfigError(f"ckpt={checkpoint} has no name to keep its results under; give the file another")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
