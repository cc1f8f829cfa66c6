from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from training_runs.sampling.permutation import Permutation


def order(length: int, *seeds: int) -> list[int]:
    return Permutation(length, *seeds)[np.arange(length)].tolist()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 16, 17, 64, 65, 1000, 55000])
def test_each_number_stands_at_one_place(length):
    assert sorted(order(length, 1, 2)) == list(range(length))


def test_a_place_is_looked_up_without_the_others():
    places = Permutation(10**8, 1, 2)
    assert places[np.array([99_999_999, 3])].tolist() == [places[np.array([place])][0] for place in (99_999_999, 3)]


def test_seeds_are_not_added_up():
    assert order(1000, 1, 2) != order(1000, 2, 1)


def test_every_order_of_four_comes_as_often_as_another():
    counts = Counter(tuple(order(4, 7, epoch)) for epoch in range(2400))
    chi_squared = sum((counts[each] - 100) ** 2 / 100 for each in permutations(range(4)))
    assert chi_squared < 49.7  # 23 degrees of freedom; a fair draw is above once in a thousand


def test_neighbours_of_an_epoch_lie_anywhere():
    places = np.array(order(55000, 1, 1))
    counts, _ = np.histogram((places[1:] - places[:-1]) % 55000, 64, (0, 55000))
    assert ((counts - 54999 / 64) ** 2 / (54999 / 64)).sum() < 103.4  # 63 degrees of freedom, likewise
