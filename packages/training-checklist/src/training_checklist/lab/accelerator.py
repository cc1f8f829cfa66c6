"""An accelerator that this machine need not have: its tensors say that they lie there, and their values lie on the CPU.

PyTorch's FakeTensorMode, which has no values, ends at the first mismatch and at every branch that depends on data.
Where the machine has one, what lies there in earnest, a dataset or what the run has moved, is taken by its values, too.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy as shallow_copy
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

from training_checklist.engines.batches import all_leaves, tensors
from training_checklist.engines.graph import leaf_tensors
from training_checklist.engines.held import DEPTH, attributes, held
from training_checklist.engines.own_code import is_own
from training_checklist.engines.own_config import own_config
from training_checklist.engines.places import Places
from training_checklist.engines.source_trees import source_tree
from training_checklist.finding import NOWHERE, Fix, Place
from training_checklist.lab.job_config import JobConfig
from training_checklist.lab.shared import Subject
from training_checklist.lightning import Trainer
from training_checklist.probe import CannotJudge, Hit

WHY = "on an accelerator this step ends with an error about tensors on two devices; the CPU never shows it"
HERE, FAR = torch.device("cpu"), torch.device("cuda", 0)
SCRIPTED, BACKWARD = torch.jit.ScriptFunction.__call__, torch.autograd._engine_run_backward
CTC_LOSS, TO, GENERATOR = torch.ctc_loss, nn.Module.to, torch.Generator
# Operators that read some of their arguments on the CPU, whatever the device of the others.
MIXES = (
    "aten::copy_",
    "aten::_to_copy",
    "aten::_pack_padded_sequence",
    "aten::_pad_packed_sequence",
    "aten::_ctc_loss",
)
CHOICES = ("aten::_fused_sdp_choice", "aten::_use_")  # between kernels: `_use_cudnn_ctc_loss`
# In a line, which asks for the device of something else: the CPU, where that lies there by a mistake of its own.
OF_SETTINGS = {"hparams", "args", "cfg", "config", "conf", "opt"}
OF_A_TENSOR = re.compile(r"\bdevice=(?!self\.device)[\w.]+\.device\b")
INDEXES = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")


@dataclass(frozen=True)
class Origin:
    """What a tensor is that does not lie on the accelerator.

    Args:
        kind: "made", "moved", "numpy", "layer", "parameter", "attribute", "datamodule", "batch", "numbered",
            "generator", "unknown", or "torch" where a module of torch itself refused; "asked" where the code follows
            some device, which would be another one elsewhere.
        name: the call that made it, "torch.ones", or what holds it, "net.positions", "batch['labels']".
        place: of the call, or the attribute.
    """

    kind: str
    name: str
    place: Place = NOWHERE


UNKNOWN = Origin("unknown", "a tensor of the CPU")


@dataclass(frozen=True)
class Mix:
    """An operation on tensors of two devices.

    Args:
        operation: of torch: "mul".
        origin: of the tensor that is not where the others are.
        used: where the operation is called.
    """

    operation: str
    origin: Origin
    used: Place

    @property
    def attribute(self) -> str:
        """The last name of what holds the tensor: "positions"."""
        return last_name(self.origin.name)

    def hit(self, what: str) -> Hit:
        """Return the finding that `what` is: the operation, with the places of the tensor's origin and of its use."""
        place = self.used.beside(parameter=self.origin.place.parameter)
        if self.origin.place.line:
            here = (self.origin.place.file, self.origin.place.line) == (place.file, place.line)
            place = self.origin.place.beside(note="" if here else f"used in {self.used}")
        return Hit(f"{self.operation} would mix cuda:0 and cpu: {what}", place)

    def fixed(self, what: str, advice: str) -> Hit:
        """Return the same with an advice that names the tensor."""
        return replace(self.hit(what), fix=Fix(advice))


# Of origins: what the project's own code makes, on a device of its choice.
MADE = {"attribute", "layer", "made", "generator", "datamodule"}


def shares_accelerator(config: DictConfig) -> bool:
    """Whether another key of a config reads trainer.accelerator, or is read by it."""
    trainer = config.get("trainer")
    is_given = OmegaConf.is_dict(trainer) and "accelerator" in trainer
    return (is_given and OmegaConf.is_interpolation(trainer, "accelerator")) or JobConfig(config).is_referred_to(
        "trainer.accelerator"
    )


def last_name(held: str) -> str:
    """Return the attribute in what a tensor is called: "positions" of "net.positions[0]"."""
    return held.partition(" ")[0].partition("[")[0].rpartition(".")[2]


@dataclass
class AcceleratorStep(Subject):
    """What was mixed in a step on a pretended accelerator."""

    mixes: list[Mix]

    def of(self, kind: str) -> list[Mix]:
        """Return those of one kind of origin.

        Raises:
            CannotJudge: the config tells the project where to make them, which in this run is the CPU.
        """
        found = [mix for mix in self.mixes if mix.origin.kind == kind]
        config = own_config() if found and kind in MADE else None
        if config is not None and shares_accelerator(config):
            raise CannotJudge("the config hands trainer.accelerator on: on an accelerator, they may be made there")
        return found


@contextmanager
def pretended(trainer: Trainer) -> Iterator[None]:
    """Let the project's own questions about the device be answered as on an accelerator."""
    answers = {
        "is_available": lambda: True,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "get_device_capability": lambda device=None: (8, 0),  # what most code asks about BF16, and finds there
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_current_stream_capturing": lambda: False,
        "synchronize": lambda device=None: None,
    }
    with (
        patch.object(torch.inference_mode, "__enter__", enter_no_grad),  # which refuses subclasses of tensors
        patch.object(torch.jit.ScriptFunction, "__call__", unscripted),  # whose autograd.grad refuses them
        patch.object(torch, "ctc_loss", with_lists_of_lengths),
        patch.object(nn.Module, "to", staying),
        patch.object(torch, "Generator", FarGenerator),
        patch.multiple(torch.cuda, **answers),
        patch.object(trainer.strategy, "_root_device", FAR, create=True),
        torch.jit.optimized_execution(False),  # which compiles kernels for the device, and asks for its driver
        torch.backends.cudnn.flags(enabled=False),  # whose operators have no counterpart on the CPU
    ):
        yield


def unscripted(function: torch.jit.ScriptFunction, *args: Any, **kwargs: Any) -> Any:
    """Call what a function was scripted from, as torch.compile does; itself, where its source is text."""
    return getattr(function, "_torchdynamo_inline", partial(SCRIPTED, function))(*args, **kwargs)


def staying(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """Do what `Module.to` does, but leave on the accelerator what lies there.

    A step that moves a network follows a device that it found when it was made: without an accelerator, the CPU.
    """
    device = torch._C._nn._parse_to(*args, **kwargs)[0]
    stays = device is not None and device.type == HERE.type
    if stays and any(isinstance(each, Far) for each in (*module.parameters(), *module.buffers())):
        return module
    return TO(module, *args, **kwargs)


def with_lists_of_lengths(log_probs: Tensor, targets: Tensor, *more: Any) -> Tensor:
    """Call ctc_loss with lengths that lie on no device: of tensors of any device it makes that, but of subclasses."""
    lengths = [each.tolist() if isinstance(each, Tensor) else each for each in more[:2]]
    return CTC_LOSS(log_probs, targets, *lengths, *more[2:])


def enter_no_grad(mode: torch.inference_mode) -> None:
    mode._inference_mode_context = torch.no_grad() if mode.mode else nullcontext()
    mode._inference_mode_context.__enter__()


class IsGenerator(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, GENERATOR)


class FarGenerator(metaclass=IsGenerator):
    """In the place of torch.Generator: what is asked for on the accelerator draws on the CPU, and counts as far."""

    made: ClassVar[set[int]] = set()  # pointers: an operator is given a wrapper of its own

    def __new__(cls, device: Any = HERE) -> torch.Generator:
        generator = GENERATOR()
        if torch.device(device).type != HERE.type:
            cls.made.add(generator._cdata)
        return generator


def is_near(generator: torch.Generator) -> bool:
    return generator.device.type == HERE.type and generator._cdata not in FarGenerator.made


class Far(Tensor):
    """A tensor that says it lies on the accelerator; its values, `near`, lie on the CPU."""

    on_numpy: Callable[[str], None] = staticmethod(lambda call: None)
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, near: Tensor) -> "Far":
        near = nearby(near)
        form = {"strides": near.stride(), "storage_offset": near.storage_offset(), "dtype": near.dtype}
        return Tensor._make_wrapper_subclass(cls, near.size(), **form, layout=near.layout, device=FAR)

    def __init__(self, near: Tensor) -> None:
        self.near = nearby(near)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{function} outside of the pretended accelerator")

    def numpy(self, **options: Any) -> Any:
        if not options.get("force"):  # which takes it off the accelerator first
            self.on_numpy("numpy()")
        return self.near.numpy(**options)

    def tolist(self) -> Any:
        return self.near.tolist()

    # torch.tensor of a list of them asks each for its number, past all that could answer for the accelerator.
    def __float__(self) -> float:
        return float(self.near)

    def __int__(self) -> int:
        return int(self.near)

    def __index__(self) -> int:
        return self.near.__index__()

    def as_subclass(self, cls: type[Tensor]) -> "Far":
        """Stay far, without the methods of a subclass: what wraps results, as those of torchvision do, goes on."""
        return self

    def __format__(self, form: str) -> str:
        return format(self.near, form)

    def __repr__(self, **options: Any) -> str:
        return f"Far({self.near!r})"

    def type(self, dtype: Any = None, *args: Any, **options: Any) -> Any:
        """Convert to what has the name of a type on the accelerator by its dtype: torch asks for a driver there."""
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            dtype = getattr(torch, dtype.rpartition(".")[2]).dtype
        return super().type(dtype, *args, **options)


# Loggers know a tensor by the name of its type, and copy it to the CPU before they ask for an array.
Far.__module__, Far.__name__ = "torch", "Tensor"


def moved_far(value: Any, depth: int = DEPTH) -> Any:
    """Return what a step has made with its tensors on the accelerator, those of an object, such as a Normal, too."""
    if depth and not isinstance(value, Tensor | nn.Module | list | tuple | dict | set) and hasattr(value, "__dict__"):
        own = shallow_copy(value)
        inside = ((name, each) for name, each in vars(value).items() if any(held(each, name, depth - 1)))
        vars(own).update({name: moved_far(each, depth - 1) for name, each in inside})
        return own
    return apply_to_collection(value, Tensor, Far)


class Accelerator(TorchDispatchMode):
    """While it is entered, operations on `Far` tensors give `Far` tensors, and those on two devices are found.

    Args:
        model: module whose paths are named.
        told: origins that are known; they are told once.
        kept: attributes that held a tensor before the first step, as `keeping` returns them.
    """

    # What FakeTensorMode sets, so that torch does not look for a driver when it reads device="cuda".
    _mode_key = torch._C._TorchDispatchModeKey.FAKE

    def __init__(self, model: nn.Module, told: set[Any], kept: set[tuple[str, str]]) -> None:
        super().__init__()
        self.places, self.told, self.made_before = Places(model), told, kept
        nodes = own_nodes()
        self.asks = any(isinstance(node, ast.Attribute) and node.attr == "is_available" for node in nodes)
        self.root, self.placed = type(model).__name__, placed_attributes(nodes) if self.asks else set()
        self.owners: dict[int, Origin] = {}  # of tensors that were there before
        self.kept: list[Tensor] = []
        self.mixes: list[Mix] = []
        self.operations = 0

    def __enter__(self) -> "Accelerator":
        torch._C._ensureCUDADeviceGuardSet()
        self.lifts = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=...) would copy to the device itself
        Far.on_numpy = staticmethod(self._numpy)
        torch.autograd._engine_run_backward = self._gradients
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        Far.on_numpy = staticmethod(lambda call: None)
        torch.autograd._engine_run_backward = BACKWARD
        torch._C._set_only_lift_cpu_tensors(self.lifts)
        super().__exit__(*error)

    def register(self, model: nn.Module) -> None:
        """Remember which attribute each tensor is that `module.to()` does not move.

        What a step has made since then, it would have made on the accelerator.
        """
        modules = dict(model.named_modules())
        for path, name, value in list(attributes(model)):
            inside = list(held(value, name))
            # A tuple of a class of its own may refuse to be made again: only what holds tensors is.
            if inside and (path, name) not in self.made_before and name in vars(modules[path]):
                vars(modules[path])[name] = moved_far(value)
                continue
            for inner, tensor, layer in inside:
                kind = (
                    "layer" if layer is not None else "parameter" if isinstance(tensor, nn.Parameter) else "attribute"
                )
                self._own(tensor, kind, f"{path or self.root}.{layer or inner}")

    def register_datamodule(self, datamodule: Any) -> None:
        """Remember which attribute each of its tensors is: nothing moves them."""
        for name, value in vars(datamodule).items() if datamodule is not None else ():
            chosen = self.asks and "device" in getattr(value, "__dict__", ())  # it is told where to keep its tensors
            for inner, tensor, _ in held(value, f"{type(datamodule).__name__}.{name}"):
                self._own(tensor, "asked" if chosen else "datamodule", inner)

    def register_batch(self, batch: Any) -> None:
        """Remember which parts of a batch the transfer has left behind."""
        for path, tensor in all_leaves(batch).items():
            self._own(tensor, "batch", path)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        far = [tensor for tensor in given if is_far(tensor)]
        device = kwargs.get("device")
        goes_far = bool(far) if device is None else device.type == FAR.type
        if function._schema.name.startswith(CHOICES):
            return 0  # what is composed of operations that every device has
        self.operations += bool(far)
        self._judge(function, args, kwargs, given, far, goes_far)
        if device is not None and device.type == FAR.type and device.index not in (None, FAR.index):
            self._tell(function._schema.name, Origin("numbered", str(device), self.places.here()))
        near_args, near_kwargs = tree_map(nearby, (args, kwargs))
        result = on_cpu(function, near_args, near_kwargs)
        if function is torch.ops.aten._pack_padded_sequence.default:
            return Far(result[0]), result[1]  # lengths of a packed sequence lie on the CPU everywhere
        if goes_far:
            result = tree_map(lambda each: Far(each) if isinstance(each, Tensor) else each, result)
            pretended = any(isinstance(tensor, Far) for tensor in far)
            return return_and_correct_aliasing(function, args, kwargs, result) if pretended else result
        origin = next((self._origin(tensor) for tensor in given if not is_far(tensor)), None)
        for tensor in tensors(result):
            if not hasattr(tensor, "_origin"):
                tensor._origin = origin or self._born(function, device, bool(given))
        return result

    def _judge(self, function: Any, args: Any, kwargs: Any, given: list, far: list, goes_far: bool) -> None:
        name = function._schema.name
        generator = kwargs.get("generator")
        if goes_far and generator is not None and is_near(generator):
            self._tell(name, Origin("generator", "its generator", self.places.here()))
        if not far or name in MIXES:
            return
        if name in INDEXES and is_far(args[0]):  # indices may lie on the CPU
            given = [each for each in (args[2] if len(args) > 2 else None,) if isinstance(each, Tensor)]
        for tensor in given:
            if is_far(tensor) or tensor.ndim == 0:
                continue
            self._tell(name, self._origin(tensor) or UNKNOWN)

    def _tell(self, operation: str, origin: Origin) -> None:
        used = self.places.here()
        place = origin.place if origin.kind != "unknown" else used
        # Once for all that a container holds, or a line makes.
        key = (place.file, place.line) if place.line else origin.name.partition("[")[0]
        if origin.kind == "asked" or key in self.told:
            return
        self.told.add(key)
        self.mixes.append(Mix(operation.removeprefix("aten::"), origin, used))

    def _numpy(self, call: str) -> None:
        self._tell(call, Origin("numpy", call, self.places.here()))

    def _gradients(
        self, outputs: Any, gradients: Any, keeps: bool, create_graph: bool, inputs: Any, *more: Any, **options: Any
    ) -> Any:
        """Return ones in the place of gradients of tensors that are far: autograd's engine would ask for a driver.

        `backward` leaves them in the leaves, for code that reads its `grad`.
        """
        if not any(map(is_far, outputs)):  # within torch.func they are wrapped
            return BACKWARD(outputs, gradients, keeps, create_graph, inputs, *more, **options)
        for gradient in gradients:
            if gradient is not None and not is_far(gradient):
                self._tell("backward", self._origin(gradient) or UNKNOWN)
        if options.get("accumulate_grad"):
            for leaf in inputs or leaf_tensors(outputs).values():
                leaf.grad = torch.ones_like(leaf)
            return ()
        # torch.func allows no requires_grad_().
        return tuple(each * 0 + 1 if create_graph else torch.ones_like(each) for each in inputs)

    def _own(self, tensor: Tensor, kind: str, name: str) -> None:
        if not is_far(tensor):
            self.kept.append(tensor)  # lest another gets its id
            asked = kind != "batch" and last_name(name) in self.placed
            self.owners[id(tensor)] = Origin("asked" if asked else kind, name, Place(parameter=name))

    def _origin(self, tensor: Tensor) -> Origin | None:
        return self.owners.get(id(tensor)) or getattr(tensor, "_origin", None)

    def _born(self, function: Any, device: torch.device | None, of_others: bool) -> Origin:
        """Return what is to be said of a tensor that an operation has just made on the CPU, of others or of none."""
        place, name = self.places.here(), function._schema.name.removeprefix("aten::")
        names_cpu = "cpu" in place.source
        if name == "_to_copy":
            return Origin("moved" if names_cpu else "asked", "cpu()", place)
        follows = (device is not None and "device" in place.source) or is_put_on_device(place.file, place.line)
        # Of torch.tensor, no operation is given one.
        follows |= self.asks and is_given_device(place.file, place.line)
        if OF_A_TENSOR.search(place.source) or (follows and not names_cpu):
            return Origin("asked", name, place)
        if of_others and name != "lift_fresh":
            return UNKNOWN
        call = "torch.tensor" if name in ("lift_fresh", "scalar_tensor") else f"torch.{name}"
        return Origin("made", call, place)


def own_nodes() -> list[ast.AST]:
    """Return all that the project's code is made of."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    trees = [source_tree(file) for file in files if isinstance(file, str) and is_own(file)]
    return [node for tree in trees for node in ast.walk(tree)]


def placed_attributes(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the attributes that hold what code has put on a device.

    The device of a module or a tensor, as `self.device`, is the CPU while the module is made, on every machine.
    """
    set_here = [node for node in nodes if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None]
    targets = [(each.targets if isinstance(each, ast.Assign) else [each.target], each.value) for each in set_here]
    placed = {
        target.id
        for names, value in targets
        if any(map(is_device, ast.walk(value)))
        for target in names
        if isinstance(target, ast.Name) and not is_device(target)
    }
    return {
        target.attr
        for names, value in targets
        if any(is_device(node) or (isinstance(node, ast.Name) and node.id in placed) for node in ast.walk(value))
        for target in names
        if isinstance(target, ast.Attribute)
    }


@cache
def is_put_on_device(file: str, line: int) -> bool:
    """Whether a line is a part of `(...).to(device)`, which does nothing where it lies there already.

    Or what it makes has a name, and that is a part of one further on in the same function.
    """
    nodes = [*ast.walk(source_tree(file))]
    around = [node for node in nodes if getattr(node, "lineno", line + 1) <= line <= (node.end_lineno or 0)]
    if any(map(moves_to_device, around)):
        return True
    targets = [target for node in around if isinstance(node, ast.Assign) for target in node.targets]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    within = next((node for node in reversed(around) if isinstance(node, ast.FunctionDef)), None)
    return within is not None and any(
        isinstance(part, ast.Name) and part.id in names
        for node in ast.walk(within)
        if moves_to_device(node) and node.lineno > line
        for part in ast.walk(node.func.value)
    )


@cache
def is_given_device(file: str, line: int) -> bool:
    """Whether a call that begins in a line has an argument `device`."""
    calls = [node for node in ast.walk(source_tree(file)) if isinstance(node, ast.Call) and node.lineno == line]
    return any(given.arg == "device" for call in calls for given in call.keywords)


def moves_to_device(node: ast.AST) -> bool:
    """Whether a node is `(...).to(device)`."""
    is_move = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to"
    return is_move and any("device" in ast.unparse(given).lower() for given in (*node.args, *node.keywords))


def is_device(node: ast.AST) -> bool:
    """Whether it is `device`, or one of hyperparameters or a config: `self.hparams.device`."""
    if isinstance(node, ast.Attribute) and node.attr == "device":
        return getattr(node.value, "attr", getattr(node.value, "id", "")) in OF_SETTINGS
    return isinstance(node, ast.Name) and node.id.lower() == "device"


def keeping(model: nn.Module) -> set[tuple[str, str]]:
    """Return module path and name of each attribute that holds a tensor."""
    return {(path, name) for path, name, value in attributes(model) if any(True for _ in held(value, name))}


def on_cpu(function: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator gives on the CPU; zeros of the right shapes where only accelerators have it."""
    if kwargs.get("device") is not None:
        kwargs = kwargs | {"device": HERE}
    generator = kwargs.get("generator")
    if generator is not None and generator.device.type != HERE.type:
        kwargs = kwargs | {"generator": None}
    try:
        return function(*args, **kwargs)
    except NotImplementedError:
        shapes = function(*tree_map(on_meta, args), **tree_map(on_meta, kwargs))
        return tree_map(lambda each: torch.zeros_like(each, device=HERE) if isinstance(each, Tensor) else each, shapes)


def is_far(tensor: Tensor) -> bool:
    """Whether a tensor lies on the pretended accelerator, or on one that this machine has."""
    return isinstance(tensor, Far) or tensor.device.type not in (HERE.type, "meta")


def nearby(value: Any) -> Any:
    """Return the values of what lies on an accelerator, and anything else as it is."""
    if isinstance(value, Far):
        return value.near
    return value.to(HERE) if isinstance(value, Tensor) and is_far(value) else value


def on_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, Tensor) else value
