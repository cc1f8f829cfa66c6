"""Small projects on which a probe is tried: its detector runs in them, in a run of its item, as in any project.

An example is one of these, from the shortest on:
- a loss, a function of answers (16, 4) and labels (16,) of the network below;
- a class of LightningModule, such as one that derives from `Small`;
- `Example`, where loader or Trainer matter, too;
- `Job`, of which a command, its config and its files matter.
"""

import copy
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from training_checklist import session
from training_checklist.ending import FitEnded
from training_checklist.engines import own_code, places
from training_checklist.engines.loads import recorded_loads
from training_checklist.engines.replay import seed_all
from training_checklist.experiments.experiment import Experiment, after_fit
from training_checklist.finding import Finding, Verdict
from training_checklist.group import OWN
from training_checklist.lab import jobs
from training_checklist.lightning import EarlyStopping, LightningModule, Trainer, is_overridden, isolate_rng
from training_checklist.probe import Probe, kept
from training_checklist.settings import Settings

QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}


SHORT = {"samples": 32, "steps": 5, "max_steps": 10}  # of what `learning` trains copies with


class Small(LightningModule):
    """8 numbers into 4 classes. A class that derives from it changes what its example is about."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.relu(self.first(inputs)))

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(answers, labels)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self.loss(self(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def with_part(make: Callable[[], Any], use: Callable[[Any, Tensor], Tensor]) -> type[Small]:
    """Make one that keeps another part, which goes over its answers."""

    class Keeping(Small):
        def __init__(self) -> None:
            super().__init__()
            self.part = make()

        def forward(self, inputs: Tensor) -> Tensor:
            return use(self.part, super().forward(inputs))

    return Keeping


def samples() -> list[tuple[Tensor, Tensor]]:
    """Return 32 samples of 8 numbers and a label from 0 to 3."""
    inputs = torch.randn(32, 8)
    return [(each, label) for each, label in zip(inputs, torch.arange(32) % 4, strict=True)]


def loader(batch_size: int = 16) -> DataLoader:
    return DataLoader(samples(), batch_size)


@dataclass(frozen=True)
class Example:
    """A project.

    Args:
        module: makes the LightningModule.
        loader: makes the DataLoader of training, and of validation where the module has a validation_step; None: the
            module makes its own.
        held_out: makes that of validation, where it is another one.
        trainer: further arguments of the Trainer.
        item: further arguments of the item.
    """

    module: Callable[[], LightningModule] = Small
    loader: Callable[[], DataLoader] | None = loader
    held_out: Callable[[], DataLoader] | None = None
    trainer: Mapping[str, Any] = field(default_factory=dict)
    item: Mapping[str, Any] = field(default_factory=dict)


def trained_with(
    optimizer: Callable[[Any], Any] = lambda weights: torch.optim.Adam(weights, lr=0.1),
    module: type[Small] = Small,
    item: Mapping[str, Any] | None = None,
    **trainer: Any,
) -> Example:
    """Return an example with another optimizer, which is made of the parameters."""
    short = {"max_steps": 40, "patience": 20}
    kind = type(module.__name__, (module,), {"configure_optimizers": lambda self: optimizer(self.parameters())})
    return Example(kind, lambda: DataLoader(labelled(16), 16), trainer=trainer, item=short if item is None else item)


def several_steps(
    module: type[LightningModule] = Small,
    batch_size: int = 4,
    optimizer: Callable[[Any], Any] | None = None,
    **trainer: Any,
) -> Example:
    """Return an example of several steps in an epoch, with another optimizer, which is made of the parameters."""
    if optimizer is not None:
        make = {"configure_optimizers": lambda self: optimizer(self.parameters())}
        module = type(module.__name__, (module,), make)
    return Example(module, partial(loader, batch_size), trainer=trainer)


def with_sgd(module: type[LightningModule] = Small, rate: float = 0.1, **options: Any) -> Example:
    """Return an example whose copies are trained for a few steps; options are those of SGD and of the Trainer."""
    of_trainer = {name: options.pop(name) for name in [*options] if name not in ("weight_decay", "momentum")}
    example = several_steps(module, 16, lambda weights: torch.optim.SGD(weights, lr=rate, **options), **of_trainer)
    return replace(example, loader=lambda: DataLoader(labelled(64), 16), item=SHORT)


def learnt(module: type[LightningModule], rate: float = 1.0) -> Example:
    """Return an example of which copies learn enough for it to show in samples that they have not seen."""
    enough = {"samples": 64, "steps": 20, "max_steps": 60}
    return replace(with_sgd(module, rate=rate), loader=lambda: DataLoader(labelled(), 16), item=enough)


def deep(depth: int, activation: type[nn.Module], deviation: float | None = None) -> type[Small]:
    """Make a plain network of so many layers, whose weights have that standard deviation."""

    class Deep(Small):
        def __init__(self) -> None:
            super().__init__()
            layers = [nn.Linear(16, 16) for _ in range(depth)]
            self.deep = nn.Sequential(*[part for layer in layers for part in (layer, activation())])
            for layer in layers if deviation is not None else ():
                nn.init.normal_(layer.weight, std=deviation)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(self.deep(self.first(inputs)))

    return Deep


class Validated(Small):
    """Small, with a validation that asks for the same loss."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.loss(self(batch[0]), batch[1])


class Monitored(Validated):
    """Validated, with logged losses, of which EarlyStopping monitors one."""

    monitor = "val/loss"

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val/loss", self.loss(self(batch[0]), batch[1]))

    def configure_callbacks(self) -> list:
        return [EarlyStopping(self.monitor)]


class Regression(Validated):
    """Numbers of a window or a row into up to four numbers."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.flatten(1))

    def loss(self, answers: Tensor, targets: Tensor) -> Tensor:
        return functional.mse_loss(answers[:, : targets.shape[1]], targets)


def labelled(number: int = 160) -> TensorDataset:
    """Return numbers around four centres, with the centre as label; the numbers are others each time."""
    centres = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(number) % 4
    return TensorDataset(centres[labels] + 0.3 * torch.randn(number, 8), labels)


def normal(*size: int, seed: int = 0) -> Tensor:
    """Return random numbers that are the same each time."""
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def bytes_of_images(numbers: int = 8, levels: int = 256) -> TensorDataset:
    """Return images of so many pixels of 8 bits, with so many shades from black to white, and labels."""
    shades = torch.linspace(0, 255, levels).round().to(torch.uint8)
    return TensorDataset(shades[torch.randint(levels, (160, numbers))], torch.arange(160) % 4)


class MappedDataset(Dataset):
    """Samples of a dataset, each put through a function of its index and its parts."""

    def __init__(self, change: Callable[..., Any], dataset: Any = None) -> None:
        self.change, self.dataset = change, labelled() if dataset is None else dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.change(index, *self.dataset[index])


def on_datasets(
    train: Callable[[], Any] = labelled,
    held_out: Callable[[], Any] = labelled,
    test: Callable[[], Any] | None = None,
    module: type[LightningModule] = Validated,
    **options: Any,
) -> Example:
    """Return an example by what makes its datasets, or loaders of one's own; options are those of `DataLoader`."""

    def loads(make: Callable[[], Any], **shuffle: Any) -> DataLoader:
        made = make()
        return made if isinstance(made, DataLoader) else DataLoader(made, **{"batch_size": 16, **shuffle, **options})

    tested = {"test_dataloader": lambda self: loads(test), "test_step": module.validation_step}
    parts = {} if test is None else tested
    return Example(type("Held", (module,), parts), lambda: loads(train, shuffle=True), lambda: loads(held_out))


def project(example: Any) -> Example:
    """Return an example in its long form."""
    if isinstance(example, Example):
        return example
    if inspect.isclass(example):
        return Example(example)
    return Example(type("Trained", (Small,), {"loss": lambda self, *given: example(*given)}))


def run(
    probe: Probe, example: Any, chosen: Mapping[str, Any] | None = None, asked: Iterable[Probe] = ()
) -> Experiment | Verdict:
    """Run the probe's item on an example, and return it; the same numbers each time.

    Args:
        chosen: thresholds, by name.
        asked: probes of the item; that one alone where there are none.
    """
    if isinstance(example, jobs.Job):
        return jobs.run(probe.item, [probe.id], example, chosen or {})
    config = OmegaConf.to_container(OmegaConf.load(files("training_checklist.conf") / OWN / f"{probe.item}.yaml"))
    content = project(example)
    settings = Settings({probe.item: dict(chosen or {})})
    with TemporaryDirectory() as folder, warnings.catch_warnings(), redirect_stdout(io.StringIO()), isolate_rng():
        warnings.simplefilter("ignore")
        seed_all()
        logging.disable(logging.WARNING)
        own_code.EXAMPLES.add(example_file(probe))
        places.kind.cache_clear()
        try:
            with session.aside(settings), recorded_loads([probe.item]):
                item = instantiate(config["callbacks"][f"debug_{probe.item}"] | content.item | {"topics": ()})
                item.probes = [*asked] or [probe]
                asked = OmegaConf.to_container(OmegaConf.create(config.get("trainer", {})), resolve=True)
                options = {"accelerator": "cpu", "devices": 1, **asked, **QUIET, **content.trainer}

                def fit(callback: Experiment | None = None) -> None:
                    module, loader = content.module(), content.loader and content.loader()
                    held_out = loader if content.held_out is None else content.held_out()
                    own_code.EXAMPLES.update(map(inspect.getfile, written_here(module)))
                    places.kind.cache_clear()
                    callbacks = copy.deepcopy(options.get("callbacks", []))
                    if callback is not None:
                        session.add(callback)
                        callbacks.append(callback)
                    trainer = Trainer(**{**options, "default_root_dir": folder, "callbacks": callbacks})
                    try:
                        trainer.fit(module, loader, held_out if is_overridden("validation_step", module) else None)
                        with suppress(FitEnded):
                            after_fit(trainer)
                    except Exception as error:
                        if callback is None or callback.explain(error) is None:
                            raise

                item.examine(fit, Path(folder))
        finally:
            logging.disable(logging.NOTSET)
            own_code.EXAMPLES.clear()
            places.kind.cache_clear()
    return item


def example_file(probe: Probe) -> str:
    """Return the file of a probe."""
    return inspect.getfile(probe.listener if probe.detect is kept else inspect.unwrap(probe.detect))


def written_here(module: LightningModule) -> list[type]:
    """Return the classes of a module that are written in this package."""
    return [kind for kind in type(module).__mro__ if kind.__module__.startswith("training_checklist.")]


def findings(probe: Probe, example: Any, chosen: Mapping[str, Any] | None = None) -> list[Finding]:
    """Return what a probe finds in an example.

    Raises:
        AssertionError: the probe has failed itself, or found nothing to judge by.
    """
    item = run(probe, example, chosen)
    if item.error is not None or probe.id not in item.judged:
        raise AssertionError(f"{probe.id}: {item.error or item.unjudged.get(probe.id) or 'it was not asked'}")
    return item.findings
