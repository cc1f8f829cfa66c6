"""One seed, two runs: whether they are the same to the last bit, and whether a checkpoint brings a run back."""

import inspect
import json
import pickle
import random
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from torch.utils.data import DataLoader

from training_checklist.command import command
from training_checklist.diagnosis.config_place import keys_named, set_in
from training_checklist.diagnosis.crash import walk
from training_checklist.diagnosis.diagnose import causes_of, diagnose
from training_checklist.engines.batches import tensors
from training_checklist.engines.criterion_calls import around_training_step
from training_checklist.engines.observe import labels_of
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.reproducibility.fingerprints import Operations, digest, named, norm, state_of
from training_checklist.experiments.reproducibility.further_steps import FurtherSteps, Step
from training_checklist.experiments.reproducibility.repetition import Repetition
from training_checklist.lightning import LightningModule, ModelCheckpoint, Trainer, isolate_rng

DRAWS = 32  # of each worker, of the same samples; fewer may be equal by chance
GENERATORS = (numpy.random.Generator, numpy.random.RandomState, random.Random, torch.Generator)
PLAIN = (type(None), bool, int, float, complex, str, bytes, Tensor, torch.dtype, torch.device, torch.Size)
SEED_FIRST = "pytorch_lightning.seed_everything(cfg.seed, workers=True) as the training function's first line"
RESTORING = {"checkpoint_connector", "load_state_dict", "restore", "load_checkpoint"}
PLACES = {"loss": "training_step", "gradient": "backward of", "parameter": "the optimizer's step or a hook after it:"}


class Reproducibility(Experiment):
    """Fails where two runs with one seed differ, workers draw the same, or a checkpoint does not bring the run back.

    Args:
        rounding: relative difference of norms that counts as rounding on an accelerator, where the Trainer was not
            asked for deterministic operations; on the CPU none does.
    """

    item = "reproducibility"
    shapes_run = True

    def __init__(self, rounding: float) -> None:
        super().__init__()
        self.rounding = rounding
        self.rows: list[tuple[str, int, str, str, float]] = []  # kind, step, name, digest, norm
        self.step = 0
        self.held: list[str] = []  # generators of the training set
        self.saved: dict[str, Any] | None = None
        self.further: FurtherSteps | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.seed = torch.initial_seed()
        self.exact = trainer.strategy.root_device.type == "cpu" or torch.are_deterministic_algorithms_enabled()
        self.operations = Operations(pl_module)
        self._record("init", named(pl_module))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.around = around_training_step(pl_module, self.operations)
        self.around.__enter__()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.operations.step = self.step
        labels = labels_of(batch)
        for index, tensor in enumerate(tensors(batch)):
            self._record("labels" if tensor is labels else "batch", {f"tensor {index}": tensor})

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self._record("loss", {"": loss})

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        # The last one first: as backward makes them.
        pairs = reversed(list(pl_module.named_parameters()))
        self._record("gradient", {name: weight.grad for name, weight in pairs if weight.grad is not None})

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self._record("parameter", named(pl_module))
        self.step += 1

    def on_validation_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any) -> None:
        self._record("validation batch", {f"tensor {index}": tensor for index, tensor in enumerate(tensors(batch))})

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        repetition = Repetition.current
        # After the first epoch: a resumed run still has one to go.
        if trainer.current_epoch == 0 and repetition is not None and not repetition.repeated:
            self._judge_checkpoint(trainer, pl_module, repetition)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.further is not None:
            self.further.remove()
        self.around.__exit__(None, None, None)
        if Repetition.current is not None and Repetition.current.repeated:
            return
        for loader in trainer.fit_loop._combined_loader.flattened:
            if isinstance(loader, DataLoader):
                self.held += held_generators(loader.dataset, type(loader.dataset).__name__)
                if loader.num_workers > 1 and loader.batch_sampler is not None:
                    self._judge_workers(loader)

    def conclude(self, folder: Path) -> None:
        repetition = Repetition.current
        if repetition is None or not self.step:
            self.skip("no step was trained" if repetition else "hydra.callbacks.debug_reproducibility has not run")
            return
        if repetition.repeated:
            path = folder / "debug" / "fingerprints.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"seed": self.seed, "rows": self.rows, "operations": self.operations.rows}))
            return
        self.seen = f"{self.step} steps, {len(self.rows)} tensors compared"
        path = repetition.folder / "again" / "debug" / "fingerprints.json"
        if path.is_file():
            self._compare(json.loads(path.read_text()), repetition.config)
        elif not self.findings:
            self.skip(f"the same command in a second process did not finish: see {path.parents[1] / 'output.log'}")
        self._judge_resumed(repetition.restored)
        if self.exact and not self.findings:
            self._judge_further(repetition.steps, repetition.again)

    def _record(self, kind: str, found: dict[str, Tensor]) -> None:
        self.rows += [(kind, self.step, name, digest(tensor), norm(tensor)) for name, tensor in found.items()]

    def _compare(self, other: dict[str, Any], config: DictConfig) -> None:
        pairs = list(zip_longest(self.rows, map(tuple, other["rows"]), fillvalue=("nothing", self.step, "", "", 0.0)))
        different = [(one, two) for one, two in pairs if one[:4] != two[:4]]
        if not different:
            self.seen += ", equal in both runs"
            return
        (kind, step, name, _, one), (*_, two) = different[0]
        if not self.exact and kind in ("loss", "gradient", "parameter") and abs(one - two) <= self.rounding * abs(one):
            self.seen += f", equal but for rounding from step {step} on (trainer.deterministic=true: equal)"
            return
        norms = f"norm {one:.6g} and {two:.6g}" if abs(one - two) > 1e-5 * abs(one) else f"one norm of {one:.6g}"
        what = f"two runs with one seed differ, first in the {f'{kind} {name}'.strip()} of step {step}: {norms}"
        if kind == "init":
            weights = [row[2] for row, _ in pairs if row[0] == "init"]
            equal = len(weights) - len([row for row, _ in different if row[0] == "init"])
            what = f"two runs with one seed begin with different weights: {name} has {norms}"
            why = f"the seed is set, but {equal} of {len(weights)} tensors are equal: the others are made before it is "
            why += "set, or from what it does not reach (numpy's default_rng(), the clock, the order of a set)"
            where, fix = f"initial {name}", SEED_FIRST
            if self.seed != other["seed"]:
                why = "no seed is set, or another one in each run: a process begins with one that torch has drawn"
                nulls = [key for key in keys_named(config, "seed") if OmegaConf.select(config, key) is None]
                where += "".join(f"; {key}=null{set_in(config, key)}" for key in nulls)
                fix = command(config, f"{nulls[0]}=42") if nulls else fix
            self.fail(what, where, why, fix)
        elif kind in ("batch", "labels", "validation batch"):
            loader = "val_dataloader" if kind == "validation batch" else "train_dataloader"
            kinds = {row[0] for row, _ in different if row[1] == step}
            moved = "labels" in kinds or not any(row[0] == "labels" for row in self.rows)
            why = "other samples are drawn: by a generator, sampler or split with no seed, or in the order of a set"
            fix = "generator=torch.Generator().manual_seed(cfg.seed) for the loader or split; sort what is listed"
            if kind != "validation batch" and not moved:
                why = "the same samples come with other values: the dataset draws from a generator that has no seed"
                fix = "draw with torch.rand or numpy.random.rand, which are seeded, or make the generator from cfg.seed"
            self.fail(what, ", ".join([f"{loader}, batch {step}", *self.held]), why, fix)
        else:
            rows = zip(self.operations.rows, map(tuple, other["operations"]), strict=False)
            made = next((row for row, again in rows if row[0] == step and row != again), None)
            self.fail(
                what + (f"; the first operation with another result is {made[1]}" if made else ""),
                made[2] if made else f"{PLACES[kind]} {name}".strip() + f", step {step}",
                "all before it is equal: it draws from what no seed reaches (numpy's default_rng(), the clock), "
                "or adds up in no fixed order, as on a GPU",
                "draw with torch.rand, which is seeded; for operations without a fixed order "
                f"{command(config, '++trainer.deterministic=true')}",
            )

    def _judge_workers(self, loader: DataLoader) -> None:
        first, second = streams(loader, 1)
        if len(set(first)) == 1 or len(set(second)) == 1:  # nothing random in the dataset
            return
        where = f"train_dataloader, {', '.join(self.held) or f'worker_init_fn={loader.worker_init_fn}'}"
        fix = "draw with torch.rand or numpy.random.rand: Lightning seeds those for each worker and epoch; "
        fix += "a generator of one's own is to be made in worker_init_fn, from torch.initial_seed()"
        again = streams(loader, 2)
        if first == second and again[0] == again[1]:
            self.fail(
                f"worker streams are identical: {DRAWS} random draws in worker 0 and in worker 1 give the same samples",
                where,
                f"each of the {loader.num_workers} workers has a copy of one generator in one state, "
                "so that augmentation is that much less diverse",
                fix,
            )
        elif again == (first, second) and not loader.persistent_workers:
            self.warn(
                "every epoch draws the same augmentation: the workers begin in the same state each time",
                where,
                "the network sees each sample in one version only, as if it were not augmented",
                fix,
            )

    def _judge_checkpoint(self, trainer: Trainer, pl_module: LightningModule, repetition: Repetition) -> None:
        keepers = [each for each in trainer.checkpoint_callbacks if isinstance(each, ModelCheckpoint)]
        config, again = repetition.config, "python train.py +debug=reproducibility"
        if keepers and all(keeper.save_weights_only for keeper in keepers) and not kept_whole(keepers):
            keys = [key for key in keys_named(config, "save_weights_only") if OmegaConf.select(config, key)]
            self.fail(
                "no checkpoint of this run can be resumed: they hold weights only",
                ", ".join(f"{key}=true{set_in(config, key)}" for key in keys) or "ModelCheckpoint in the code",
                "no optimizer, scheduler, epoch or step is in the file: a run that is interrupted begins anew",
                command(config, *(f"{key}=false" for key in keys)) if keys else "save_weights_only=False",
            )
        elif keepers:
            path = repetition.folder / "first_epoch.ckpt"
            trainer.save_checkpoint(path, weights_only=False)
            try:
                torch.load(path, weights_only=True, map_location="cpu")
            except pickle.UnpicklingError as error:
                found = dict(objects(torch.load(path, weights_only=False, map_location="cpu")))
                name = re.search(r"GLOBAL (\S+)", str(error))
                self.fail(
                    f"checkpoints hold pickled objects: {name[1] if name else error}",
                    ", ".join(f"{key} ({kind})" for key, kind in list(found.items())[:4]) or "checkpoint",
                    "torch.load and Trainer.fit(ckpt_path=...) refuse to unpickle classes, because that runs code of "
                    "whoever wrote the file: the run cannot be resumed",
                    "save plain values: OmegaConf.to_container(...) or _convert_: all for hyperparameters, "
                    f"self.save_hyperparameters(ignore=[...]), str(path); then {again}",
                )
                return
            repetition.saved, self.saved = path, state_of(trainer, pl_module)
            if "dataloader_iter" not in inspect.signature(pl_module.training_step).parameters:
                self.further = FurtherSteps(trainer, pl_module)
                repetition.steps = self.further.steps

    def _judge_resumed(self, restored: Any) -> None:
        if isinstance(restored, Exception):
            seen, root = diagnose(restored), list(causes_of(restored))[-1]
            # What else it raises may come of running twice in one process.
            if any(RESTORING & {Path(step.file).stem, step.function} for step in walk(root)):
                where = "on_save_checkpoint or on_load_checkpoint" if "ckpt_path" in seen.where else seen.where
                self.fail(f"a checkpoint cannot be resumed: {seen.what}", where, seen.why, seen.fix)
        elif restored is not None:
            lost = [name for name in self.saved if name in restored and self.saved[name] != restored[name]]
            lost += sorted(set(self.saved) - set(restored))
            self.seen += "; resumed from a checkpoint, all restored" if not lost else ""
            if lost:
                self.fail(
                    f"{len(lost)} of {len(self.saved)} values are not what they were when training is resumed: "
                    f"{', '.join(lost[:4])}",
                    f"{lost[0]} after Trainer.fit(ckpt_path=...)",
                    "what the checkpoint does not bring back begins anew, and the run goes on as another one",
                    "on_save_checkpoint, on_load_checkpoint, state_dict, or a hook that changes weights at the start",
                )

    def _judge_further(self, steps: list[Step], again: list[Step]) -> None:
        """Compare the steps that follow a checkpoint with those of the resumed run, given the same batches."""
        first = self.step - len(steps)
        for number, (one, two) in enumerate(zip(steps, again, strict=False)):
            if one.rates != two.rates:  # Lightning saves before a schedule that waits for a metric has seen the epoch's
                return
            moved = [name for name in one.weights if differ(one.weights[name], two.weights.get(name))]
            if not moved and not differ(one.loss, two.loss):
                continue
            at = max(number - 1, 0) if moved else number
            before, after = steps[at].attributes, again[at].attributes
            lost = [name for name in before if name in after and before[name] != after[name]]
            named_values = [f"{name} is {before[name]} without interruption and {after[name]} here" for name in lost]
            differs = (
                f"{moved[0]} after step" if moved else f"the loss is {two.loss:.6g} and not {one.loss:.6g} in step"
            )
            (self.fail if lost else self.warn)(
                f"a resumed run goes another way, though it is given the same batches and random numbers: "
                f"{differs} {first + at}" + ("" if not moved else " differs"),
                "; ".join(named_values[:3]) or "training_step, or a hook or callback around it",
                "a checkpoint holds parameters, buffers and what state_dict() or on_save_checkpoint give it; what else "
                "a step depends on begins anew when training is resumed",
                f"self.register_buffer({lost[0].rpartition('.')[2]!r}, torch.tensor(...)), or on_save_checkpoint and "
                "on_load_checkpoint; self.global_step counts the optimizer's steps and is restored"
                if lost
                else "look at what the step reads beside the batch; save it in on_save_checkpoint",
            )
            return
        if again:
            self.seen += f", {len(again)} further steps equal"


def kept_whole(keepers: list[ModelCheckpoint]) -> bool:
    """Whether beside the files of `keepers` lies a checkpoint from which training can go on, whoever wrote it."""
    files = {path for keeper in keepers if keeper.dirpath is not None for path in Path(keeper.dirpath).glob("*.ckpt")}
    return any("optimizer_states" in torch.load(path, "cpu", weights_only=True, mmap=True) for path in files)


def differ(one: float | None, two: float | None) -> bool:
    """Whether values differ by more than sums over weights that lie in memory in another order."""
    return None not in (one, two) and abs(one - two) > 1e-5 * abs(one)


def streams(loader: DataLoader, seed: int) -> tuple[list[str], list[str]]:
    """Return what two workers make of the same samples, again and again, as fingerprints."""
    with isolate_rng():
        samples = next(iter(loader.batch_sampler))[:4]
        both = DataLoader(
            loader.dataset,
            batch_sampler=[samples] * (2 * DRAWS),  # in turn
            num_workers=2,
            collate_fn=loader.collate_fn,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            generator=torch.Generator().manual_seed(seed),
        )
        drawn = ["".join(map(digest, tensors(batch))) for batch in both]
    return drawn[::2], drawn[1::2]


def held_generators(thing: Any, path: str, depth: int = 3) -> Iterator[str]:
    """Yield where an object keeps random generators: "Digits.rng (Generator)"."""
    for name, value in getattr(thing, "__dict__", {}).items():
        if isinstance(value, GENERATORS):
            yield f"{path}.{name} ({type(value).__name__})"
        elif depth > 1 and not isinstance(value, Tensor):
            yield from held_generators(value, f"{path}.{name}", depth - 1)


def objects(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, class) of whatever in a checkpoint is neither tensor nor plain value."""
    if isinstance(value, (dict, list, tuple, set)) and type(value).__module__ in ("builtins", "collections"):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from objects(part, f"{path}.{key}".lstrip("."))
    elif type(value) not in PLAIN:
        yield path, f"{type(value).__module__}.{type(value).__qualname__}"
