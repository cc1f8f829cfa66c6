"""An accelerator that this machine need not have: its tensors say that they lie there, and their values lie on the CPU.

PyTorch's FakeTensorMode, which has no values, ends at the first mismatch and at every branch that depends on data.
"""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

from training_checklist.engines.batches import tensors
from training_checklist.engines.held import attributes, held
from training_checklist.engines.observe import Places
from training_checklist.engines.own_code import shorten
from training_checklist.finding import FAILED, Finding, unsorted
from training_checklist.lightning import Trainer

HERE, FAR = torch.device("cpu"), torch.device("cuda", 0)
UNREGISTERED = "; nor is it in parameters() or state_dict(), so that it is never trained or saved"
# Operators that read some of their arguments on the CPU, whatever the device of the others.
MIXES = (
    "aten::copy_",
    "aten::_to_copy",
    "aten::_pack_padded_sequence",
    "aten::_pad_packed_sequence",
    "aten::_ctc_loss",
)
INDEXES = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")


@contextmanager
def pretended(trainer: Trainer) -> Iterator[None]:
    """Let the project's own questions about the device be answered as on an accelerator."""
    answers = {"is_available": lambda: True, "current_device": lambda: 0, "device_count": lambda: 1}
    with (
        patch.multiple(torch.cuda, **answers),
        patch.object(trainer.strategy, "_root_device", FAR, create=True),
        torch.backends.cudnn.flags(enabled=False),  # whose operators have no counterpart on the CPU
    ):
        yield


class Origin(NamedTuple):
    """Where a tensor of the CPU comes from; `what` is None where that may be another device elsewhere."""

    what: str | None
    where: str
    fix: str
    why: str = ""


class Far(Tensor):
    """A tensor that says it lies on the accelerator; its values, `near`, lie on the CPU."""

    on_numpy: Callable[[str], None] = staticmethod(lambda call: None)
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, near: Tensor) -> "Far":
        near = near.near if isinstance(near, Far) else near
        form = {"strides": near.stride(), "storage_offset": near.storage_offset(), "dtype": near.dtype}
        return Tensor._make_wrapper_subclass(cls, near.size(), **form, layout=near.layout, device=FAR)

    def __init__(self, near: Tensor) -> None:
        self.near = near.near if isinstance(near, Far) else near

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{function} outside of the pretended accelerator")

    def numpy(self, **options: Any) -> Any:
        self.on_numpy("numpy()")
        return self.near.numpy(**options)

    def tolist(self) -> Any:
        return self.near.tolist()

    def __repr__(self, **options: Any) -> str:
        return f"Far({self.near!r})"


class Accelerator(TorchDispatchMode):
    """While it is entered, operations on `Far` tensors give `Far` tensors, and those on two devices are found.

    Args:
        model: module whose paths are named.
        report: is told each finding; the operation goes on as if everything lay on the accelerator.
    """

    # What FakeTensorMode sets, so that torch does not look for a driver when it reads device="cuda".
    _mode_key = torch._C._TorchDispatchModeKey.FAKE

    def __init__(self, model: nn.Module, report: Callable[[Finding], None]) -> None:
        super().__init__()
        self.places, self.report = Places(model), report
        self.root = type(model).__name__
        self.owners: dict[int, Origin] = {}  # of tensors that were there before
        self.kept: list[Tensor] = []
        self.told: set[str] = set()
        self.operations = 0

    def __enter__(self) -> "Accelerator":
        torch._C._ensureCUDADeviceGuardSet()
        self.lifts = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=...) would copy to the device itself
        Far.on_numpy = staticmethod(self._numpy)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        Far.on_numpy = staticmethod(lambda call: None)
        torch._C._set_only_lift_cpu_tensors(self.lifts)
        super().__exit__(*error)

    def register(self, model: nn.Module) -> None:
        """Remember which attribute each tensor is that `module.to()` does not move."""
        for path, name, value in attributes(model):
            for inner, tensor, layer in held(value, name):
                if isinstance(tensor, Far):
                    continue
                where = f"{path or self.root}.{inner}"
                if layer is not None:
                    where = f"{path or self.root}.{layer}"
                    what = f"{where.partition(' ')[0]} is not registered as a submodule"
                    fix = f"keep layers in nn.ModuleList or nn.ModuleDict: self.{name} = nn.ModuleList(...)"
                    origin = Origin(what, where, fix, UNREGISTERED)
                elif isinstance(tensor, nn.Parameter):
                    fix = f"self.{name} = nn.ParameterList(...), which registers what it holds"
                    origin = Origin(f"the parameter {where} is not registered", where, fix, UNREGISTERED)
                else:
                    fix = f'self.register_buffer("{name}", ..., persistent=False) instead of self.{name} = ...'
                    origin = Origin(f"{where} is a plain attribute and no buffer", where, fix)
                self._own(tensor, origin)

    def register_datamodule(self, datamodule: Any) -> None:
        """Remember which attribute each of its tensors is: nothing moves them."""
        for name, value in vars(datamodule).items() if datamodule is not None else ():
            for inner, tensor, _ in held(value, f"{type(datamodule).__name__}.{name}"):
                fix = f"move it where it is used: self.{name}.to(x.device), x being a tensor of the batch"
                self._own(tensor, Origin(f"{inner} is a tensor of the CPU", inner, fix))

    def register_batch(self, batch: Any) -> None:
        """Remember which parts of a batch the transfer has left behind."""
        for inner, tensor, _ in held(batch, "batch"):
            if isinstance(tensor, Far):
                continue
            fix = "move it in transfer_batch_to_device, or give its class a method to(device) that does"
            self._own(tensor, Origin(f"{inner} is left behind when the batch is moved", inner, fix))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        far = [tensor for tensor in given if isinstance(tensor, Far)]
        device = kwargs.get("device")
        goes_far = bool(far) if device is None else device.type == FAR.type
        if function is torch.ops.aten._fused_sdp_choice.default:
            return 0  # composed of operations that every device has
        self.operations += bool(far)
        self._judge(function, args, kwargs, given, far, goes_far)
        if device is not None and device.type == FAR.type and device.index not in (None, FAR.index):
            self._tell_other(function, device)
        near_args, near_kwargs = tree_map(nearby, (args, kwargs))
        result = on_cpu(function, near_args, near_kwargs)
        if function is torch.ops.aten._pack_padded_sequence.default:
            return Far(result[0]), result[1]  # lengths of a packed sequence lie on the CPU everywhere
        if goes_far:
            result = tree_map(lambda each: Far(each) if isinstance(each, Tensor) else each, result)
            return return_and_correct_aliasing(function, args, kwargs, result) if far else result
        origin = next((self._origin(tensor) for tensor in given if not isinstance(tensor, Far)), None)
        for tensor in tensors(result):
            if not hasattr(tensor, "_origin"):
                tensor._origin = origin or self._born(function, device)
        return result

    def _judge(self, function: Any, args: Any, kwargs: Any, given: list, far: list, goes_far: bool) -> None:
        name = function._schema.name
        generator = kwargs.get("generator")
        if goes_far and generator is not None and generator.device.type == HERE.type:
            fix = "make it on the device: torch.Generator(device=self.device)"
            self._tell(name, Origin("its generator is one of the CPU", self._here(), fix))
        if not far or name in MIXES:
            return
        if name in INDEXES and isinstance(args[0], Far):  # indices may lie on the CPU
            given = [each for each in (args[2] if len(args) > 2 else None,) if isinstance(each, Tensor)]
        for tensor in given:
            if isinstance(tensor, Far) or tensor.ndim == 0:
                continue
            unknown = Origin("a tensor of the CPU was made before the step", "", "move it first: tensor.to(x.device)")
            self._tell(name, self._origin(tensor) or unknown)

    def _tell(self, operation: str, origin: Origin) -> None:
        key = origin.where.partition("[")[0]  # one finding for all that a container holds, or a line makes
        if origin.what is None or key in self.told:
            return
        self.told.add(key)
        used = self._here()
        where = used if origin.where in ("", used) else f"{origin.where}; used in {used}"
        what = f"{operation.removeprefix('aten::')} would mix {FAR} and cpu: {origin.what}"
        why = "on an accelerator this step ends with an error about tensors on two devices; the CPU never shows it"
        self.report(unsorted(FAILED, what, where, why + origin.why, origin.fix))

    def _tell_other(self, function: Any, device: torch.device) -> None:
        where = self._here()
        if where not in self.told:
            self.told.add(where)
            what = f"{function._schema.name.removeprefix('aten::')} puts a tensor on {device}, and the step is on {FAR}"
            why = "the accelerator is named by its number: elsewhere there is none of it, or it is another process's"
            self.report(unsorted(FAILED, what, where, why, "device=x.device, x being an input of the module"))

    def _numpy(self, call: str) -> None:
        what = f"{call} is asked of a tensor of the accelerator"
        self._tell(call, Origin(what, self._here(), "copy it first: tensor.detach().cpu().numpy()"))

    def _own(self, tensor: Tensor, origin: Origin) -> None:
        self.kept.append(tensor)  # lest another gets its id
        self.owners[id(tensor)] = origin

    def _origin(self, tensor: Tensor) -> Origin | None:
        return self.owners.get(id(tensor)) or getattr(tensor, "_origin", None)

    def _born(self, function: Any, device: torch.device | None) -> Origin:
        """Return what is to be said of a tensor that an operation has just made on the CPU."""
        where = self._here()
        name = function._schema.name.removeprefix("aten::")
        source = where.partition(": ")[2]
        if device is not None and "cpu" not in source and "device" in source:
            return Origin(None, where, "")
        if name == "_to_copy":
            what = "a tensor was moved to the CPU" if "cpu" in source else None
            return Origin(what, where, "leave that out, or move it back with .to(x.device)")
        call = "torch.tensor" if name in ("lift_fresh", "scalar_tensor") else f"torch.{name}"
        fix = f"{call}(..., device=x.device), x being an input of the module; self.device in a LightningModule"
        return Origin(f"{call} makes its tensor on the CPU", where, fix)

    def _here(self) -> str:
        """Return "net.encoder, model.py:37: the line"."""
        place = self.places.here()
        path, _, line = place.rpartition(", ")
        file, _, number = line.rpartition(":")
        if not number.isdigit():
            return place
        source = linecache.getline(file, int(number)).strip()
        return ", ".join(part for part in (path, f"{shorten(file)}:{number}: {source}") if part)


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


def nearby(value: Any) -> Any:
    return value.near if isinstance(value, Far) else value


def on_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, Tensor) else value
