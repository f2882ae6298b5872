"""A quick cut of the attacks on readers and models in `torture`."""

import random

import numpy as np
import pytest

from torture import damage, fuzz


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_hostile_files(name):
    pytest.importorskip(fuzz.TARGETS[name].needs)
    counts = fuzz.fuzz(name, seconds=0, seed=0, cases=150)
    assert counts["tried"] == 150


def test_mutations_are_repeatable_and_differ():
    seeds = fuzz.count_seeds()
    first, second = ([fuzz.mutated(seeds[0], seeds, random.Random(seed)) for _ in range(1)] for seed in (1, 1))
    assert first == second
    generator = random.Random(0)
    assert len({fuzz.mutated(seeds[0], seeds, generator) for _ in range(100)}) > 80


def test_flipped_bits_and_truncations():
    counts = damage.flips(seconds=600, seed=0, share=0.005)
    assert counts["damaged models"] == counts["errors"] + counts["same answers"]
    assert counts["errors"] > 0.9 * counts["damaged models"] > 100


def test_headers_with_extreme_numbers():
    counts = damage.headers(seconds=0, seed=2, cases=1000)
    assert counts["headers"] == counts["errors"] + counts["loaded"] == 1000
    assert counts["loaded"] >= 5  # of about 15: nearly all such headers are errors


@pytest.mark.skipif(np.__version__ < "2", reason="plain Python needs the integers of NumPy 2")
def test_indexes_that_look_valid():
    counts = damage.indexes(seconds=0, seed=0, cases=60, jit=False)
    assert counts["indexes"] == 60
    assert counts["valid"] >= 15
