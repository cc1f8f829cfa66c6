"""A permutation that is computed where it is looked at: it takes no memory, and its middle no time."""

import numpy as np

# Luby and Rackoff (1988): four rounds hide a permutation from whoever asks for less than about 2^(bits / 4) places.
# A set may have fewer elements than that; NIST's FF3, for sets as small, takes eight.
ROUNDS = 8


class Permutation:
    """The numbers below `length` in an order that follows from `seeds`, each once.

    A Feistel network orders 4^n numbers, of which `length` is more than a fourth. Who lands beyond `length` goes
    through it again until it comes back (cycle walking, Black and Rogaway 2002): less than four times on average.
    """

    def __init__(self, length: int, *seeds: int) -> None:
        self.length = length
        self.half = np.uint64(max(1, ((length - 1).bit_length() + 1) // 2))  # bits
        self.keys = np.random.SeedSequence(seeds).generate_state(ROUNDS, np.uint64)

    def __getitem__(self, places: np.ndarray) -> np.ndarray:
        """Return the numbers that stand at `places`."""
        numbers = places.astype(np.uint64)
        beyond = np.arange(len(numbers))
        while len(beyond):
            numbers[beyond] = walked = self._network(numbers[beyond])
            beyond = beyond[walked >= self.length]
        return numbers.astype(np.int64)

    def _network(self, numbers: np.ndarray) -> np.ndarray:
        mask = (np.uint64(1) << self.half) - np.uint64(1)
        left, right = numbers >> self.half, numbers & mask
        for key in self.keys:
            left, right = right, left ^ (mixed(right ^ key) & mask)
        return left << self.half | right


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Return 64 bits of each of which every one depends on all: the finalizer of SplitMix64 (Steele et al. 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
