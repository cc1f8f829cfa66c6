from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import (
    Call,
    Data,
    Listener,
    MappedDataset,
    Reshape,
    caller_of_numpy,
    exchanges_axes,
    of_frame,
    on_datasets,
    to_transpose,
    watch,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


class Reshapes(Listener):
    """Keeps reshapes to the shape of a transpose, of tensors and of NumPy's arrays; once a line."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], Reshape] = {}

    def after(self, call: Call) -> None:
        self._keep(to_transpose(call))

    def see_array(self, name: str, function: Any, given: tuple[Any, ...], result: Any) -> None:
        if name == "reshape" and exchanges_axes(given[0].shape, result.shape):
            frame = caller_of_numpy()
            self._keep(frame and Reshape(name, given[0].shape, result.shape, of_frame(frame)))

    def _keep(self, found: Reshape | None) -> None:
        if found is not None:
            self.found.setdefault((found.place.file, found.place.line), found)


def detect(data: Data, limits: Limits) -> Hits:
    reshapes = Reshapes()
    watch(data, reshapes)
    for found in reshapes.found.values():
        yield Hit(found.told, found.place.beside(loader="train_dataloader"))


def moved(move: Any) -> Any:
    def change(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x, y, move(torch.zeros(4, 8))

    return on_datasets(lambda: MappedDataset(change))


PROBE = Probe(
    question="Are the axes of a sample exchanged by transpose() or permute(), and not by reshape() or view()?",
    why="a reshape leaves the numbers in their order: each channel of the result holds pieces of all channels and rows",
    fix=Fix("image.transpose(2, 0, 1) of an array, and permute(2, 0, 1) of a tensor, move the numbers with their axes"),
    detect=detect,
    faulty=moved(lambda image: image.reshape(8, 4)),
    healthy=moved(lambda image: image.permute(1, 0)),
)
