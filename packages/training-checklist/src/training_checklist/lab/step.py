"""One call of a step that is watched: what the probes of a network stand on."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.around_step import around_step
from training_checklist.engines.batches import batch_size
from training_checklist.engines.compared import Look, first_of, moved_look
from training_checklist.engines.criteria import Criteria, CriterionCall
from training_checklist.engines.dropouts import DropoutCalls
from training_checklist.engines.freed import give_back_where_grown
from training_checklist.engines.places import of_function
from training_checklist.engines.replay import call_step
from training_checklist.engines.splits import Split, samples_of, splits
from training_checklist.engines.stand_in import stand_in
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.finding import Place
from training_checklist.lab.differences import Differences
from training_checklist.lab.listeners import Listeners
from training_checklist.lab.module_calls import ModuleCalls
from training_checklist.lab.shared import Subject, of_the_project, once
from training_checklist.lightning import LightningModule, Trainer, isolate_rng
from training_checklist.probe import CannotJudge, Hit, Probe

STEPS = ("training_step", "validation_step", "test_step")
LEAST = 3  # samples of a batch of which one is left out: of two, the other one alone has nothing that is over samples


class StepListener(Listener):
    """A probe's own listener: there is a new one for each step that is watched.

    Attributes:
        step: which it is.
        found: what it has seen, once a line of code.
    """

    def __init__(self, step: "Step") -> None:
        self.step = step
        self.found: dict[tuple[str, int], Hit] = {}

    def keep(self, call: Call, what: str, place: Place | None = None) -> None:
        """Keep a hit at the line that makes a call, or at another place."""
        place = call.place if place is None else place
        self.found.setdefault((place.file, place.line), Hit(what, place))

    def before_backward(self, loss: Tensor) -> None:
        """Look at a loss while its graph is whole."""


class Step(Subject):
    """A call of `training_step` or another step, with all that is seen of it.

    What is derived from it is a function `@once` of it, in this package or in a probe's own file.

    Args:
        name: "training_step".
        kinds: the classes of listeners that probes ask for.
        size: of the batch, where it is known otherwise.

    Attributes:
        size: of the batch, in samples; None where its tensors do not share a first dimension.
        criteria: the calls of criteria.
        dropouts: where they are at work.
        modules: the modules that are called.
        reached: parameters that got a gradient, and whether it had anything but zeros.
        raised: whether it has: then all that is known is what the last criterion was given.
        made: what is made `@once`.
        is_open: whether the run's own call is watched.
    """

    def __init__(
        self,
        name: str,
        pl_module: LightningModule,
        trainer: Trainer,
        batch: Any,
        kinds: Iterable[type[StepListener]] = (),
        size: int | None = None,
    ) -> None:
        self.name, self.pl_module, self.trainer, self.batch = name, pl_module, trainer, batch
        loaders = (trainer.train_dataloader, trainer.val_dataloaders)
        self.kinds, self.size = tuple(kinds), samples_of(batch, loaders) if size is None else size
        self.criteria, self.dropouts, self.differences = Criteria(), DropoutCalls(), Differences()
        self.modules = ModuleCalls(pl_module)
        self.listeners = Listeners(self.kinds, self)
        self.reached: dict[str, bool] = {}
        self.raised = False
        self.made: dict[Any, tuple[Any, str | None]] = {}
        self._around, self.is_open = ExitStack(), False

    def watch(self) -> None:
        """Watch the run's own next call of the step, until `close`."""
        self.is_open = True
        self._around.enter_context(around_step(self.pl_module, *self._watching(), step=self.name))

    def _watching(self) -> tuple[Any, ...]:
        tracer = Tracer(self.pl_module, self.criteria, self.dropouts, self.differences, self.listeners)
        return (self.modules, tracer) if self.name == "training_step" else (tracer,)

    def before_backward(self, loss: Tensor) -> None:
        """Tell those who look at the graph of a loss."""
        self.differences.before_backward(loss)
        self.listeners.tell("before_backward", loss)

    def look_at_gradients(self) -> None:
        """See which parameters have one, after a backward."""
        for name, parameter in self.pl_module.named_parameters():
            if parameter.grad is not None:
                self.reached[name] = self.reached.get(name, False) or bool(parameter.grad.any())

    def close(self) -> None:
        self._around.close()
        self.is_open = False

    def forget(self) -> None:
        """Let go of all tensors: they hold the graph. What was made of them stays."""
        self.listeners = Listeners((), self)
        self.criteria, self.dropouts, self.differences = Criteria(), DropoutCalls(), Differences()
        self.made.clear()
        self.batch = None

    def asked_by(self, probe: Probe) -> "Step | Raised":
        """Return this step for a probe that is asked now."""
        return Raised(self) if self.raised else super().asked_by(probe)

    def heard(self, kind: type[StepListener] | None = None) -> Any:
        """Return a listener of this step: that of the probe which asks, or that of another class.

        Raises:
            Exception: that the listener has raised.
        """
        return self.listeners.heard(self.asks.listener if kind is None else kind)

    @property
    def learned(self) -> list[CriterionCall]:
        """The calls of criteria that training learns by, and not those that only log."""
        return [call for call in self.criteria.calls if call.result is not None and call.result.requires_grad]

    @property
    def place(self) -> Place:
        """Where the step is written."""
        return of_function(getattr(type(self.pl_module), self.name))

    def replays(self) -> None:
        """Say whether the step can be run again.

        Raises:
            CannotJudge: it cannot.
        """
        if self.trainer.world_size > 1:
            raise CannotJudge("one rank alone cannot run a step again: the others would wait for it")

    def again(
        self, batch: Any, training: bool | None = None, size: int | None = None, name: str | None = None
    ) -> "Step":
        """Run the step once more, on a copy of the network that leaves no trace, with a batch of one's own.

        Args:
            training: the mode of all modules; None: as they are.
            name: of another step in its place.

        Raises:
            CannotJudge: it cannot be run so.
        """
        self.replays()
        give_back_where_grown()  # copies of before
        name = self.name if name is None else name
        with of_the_project(f"{name}, run again on other samples,"), isolate_rng():
            copy = stand_in(self.pl_module, self.trainer)
            if training is not None:
                copy.train(training)
            other = Step(name, copy, self.trainer, batch, self.kinds, size)
            with ExitStack() as stack:
                stack.enter_context(torch.set_grad_enabled(name == "training_step"))
                stack.enter_context(self.trainer.precision_plugin.forward_context())
                for context in other._watching():
                    stack.enter_context(context)
                call_step(copy, name, batch)
        return other


class Raised:
    """A step that has raised: all that is known of it is what its last criterion was given."""

    raised = True

    def __init__(self, step: Step) -> None:
        self.criteria, self.dropouts, self._name = step.criteria, step.dropouts, step.name

    def __getattr__(self, name: str) -> Any:
        raise CannotJudge(f"{self._name} has raised")


@once
def smaller(step: Step) -> Step:
    """Return the same step on a batch with a sample less: other things may be as many as the samples by chance."""
    if batch_size(step.batch) != step.size:
        raise CannotJudge("samples are not the first dimension of the batch")
    if step.size is None or step.size < LEAST:
        raise CannotJudge(f"a batch with a sample less would have fewer than {LEAST - 1}")
    return step.again(first_of(step.batch, step.size - 1), size=step.size - 1)


@once
def _look(step: Step) -> tuple[Look, list[tuple[Any, bool]]]:
    step.replays()
    if not step.pl_module.automatic_optimization:
        raise CannotJudge("a step that drives its optimizers itself has no loss that it can be compared by")
    with of_the_project("a copy of the network"):
        look = moved_look(step.trainer, step.pl_module)
    run = look.loss_of

    def loss_of(batch: Any) -> Tensor:
        with of_the_project(f"{step.name}, run again on other samples,"):
            return run(batch)

    look.loss_of = loss_of
    return look, [(module, module.training) for module in look.module.modules()]


def look(step: Step, training: bool = False) -> Look:
    """Return what runs the step on a copy whose weights are moved a little, for losses and answers of other batches.

    Args:
        training: in the modes in which the network trains, and not in eval mode.

    Raises:
        CannotJudge: the step cannot be run so.
    """
    found, modes = _look(step)
    for module, mode in modes:
        module.training = mode and training
    return found


@once
def train_split(step: Step) -> Split:
    """Return the first loader of training whose samples can be had one by one."""
    found = next((each for each in splits("train", step.trainer.train_dataloader) if each.indexable), None)
    if found is None:
        raise CannotJudge("no dataset of training gives single samples by their index")
    return found
