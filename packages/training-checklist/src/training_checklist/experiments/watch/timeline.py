"""Time and memory of every step, in a list that stays short however long the training is."""

import time
from dataclasses import dataclass
from statistics import mean, median

import torch

from training_checklist.engines.freed import resident_bytes

MOST = 256  # blocks; twice as many are merged in pairs


@dataclass
class Block:
    """Some steps one after the other.

    Args:
        step: the last of them.
        wall: median seconds of one.
        processor: median seconds that this process computed in one.
        resident: bytes of this process after them, None where the system does not tell.
        allocated: bytes of tensors on the device after them, None of a CPU.
    """

    step: int
    wall: float
    processor: float
    resident: int | None
    allocated: int | None


class Timeline:
    """Measures from the start of one step to the start of the next.

    Args:
        device: that the network is on.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.blocks: list[Block] = []
        self.size = 8  # steps of a block
        self._wall: list[float] = []
        self._processor: list[float] = []
        self._last: tuple[float, float] | None = None

    def begin_step(self, step: int) -> float | None:
        """Count the step that ends here, where the next one begins; return its seconds, None of no whole step."""
        now, used = time.perf_counter(), time.process_time()
        last, self._last = self._last, (now, used)
        if last is None:
            return None
        self._wall.append(now - last[0])
        self._processor.append(used - last[1])
        if len(self._wall) == self.size:
            self._end_block(step)
        return now - last[0]

    def interrupt(self) -> None:
        """Leave out what comes until the next step begins: a look, or validation."""
        self._last = None

    def _end_block(self, step: int) -> None:
        allocated = torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else None
        self.blocks.append(Block(step, median(self._wall), median(self._processor), resident_bytes(), allocated))
        self._wall.clear()
        self._processor.clear()
        if len(self.blocks) == 2 * MOST:
            pairs = zip(self.blocks[::2], self.blocks[1::2], strict=True)
            self.blocks = [merged(first, second) for first, second in pairs]
            self.size *= 2


def merged(first: Block, second: Block) -> Block:
    wall, processor = mean((first.wall, second.wall)), mean((first.processor, second.processor))
    return Block(second.step, wall, processor, second.resident, second.allocated)
