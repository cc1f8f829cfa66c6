"""A step in FP16 as a GPU would take it, on whatever device there is."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

# What CUDA's autocast computes in float32 ("CUDA Ops that can autocast to float32" in PyTorch's documentation of amp);
# the CPU's has fewer, and computes the others in whatever type they are given.
IN_FLOAT32 = {
    *("__pow__", "__rdiv__", "__rpow__", "__rtruediv__", "acos", "asin", "binary_cross_entropy_with_logits", "cosh"),
    *("cosine_embedding_loss", "cdist", "cosine_similarity", "cross_entropy", "cumprod", "cumsum", "dist", "erfinv"),
    *("exp", "expm1", "group_norm", "hinge_embedding_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10"),
    *("log_softmax", "log1p", "log2", "margin_ranking_loss", "mse_loss", "multilabel_margin_loss"),
    *("multi_margin_loss", "nll_loss", "norm", "normalize", "pdist", "poisson_nll_loss", "pow", "prod", "reciprocal"),
    *("rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "sum", "renorm", "tan"),
    "triplet_margin_loss",
}


class Float32(TorchFunctionMode):
    """While it is entered, these operations get float32 wherever the CPU's autocast is on."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in IN_FLOAT32 and "out" not in kwargs and torch.is_autocast_enabled("cpu"):
            args, kwargs = tree_map_only(Tensor, in_float32, (args, kwargs))
        return function(*args, **kwargs)


def in_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == torch.float16 else tensor


@contextmanager
def fp16_autocast(device: str) -> Iterator[None]:
    with torch.autocast(device, torch.float16), Float32() if device == "cpu" else nullcontext():
        yield
