"""Fixtures for the tests of training."""

import functools

import pytest
import samples

from pbos.training.solve import Ridge


@pytest.fixture(scope="module")
def real():
    """150 English words with vectors of 20 dimensions, and counts of more words."""
    return samples.english_vectors(150, 20), samples.english_counts(20_000)


@pytest.fixture(scope="module")
def few(real):
    """The same with fewer counts, for tests that train often."""
    return real[0], samples.english_counts(2000)


@pytest.fixture
def tight(monkeypatch):
    """Solve ridge regression to the last digit."""
    solve = functools.partialmethod(Ridge.solve, tolerance=1e-7, max_iterations=3000)
    monkeypatch.setattr(Ridge, "solve", solve)
