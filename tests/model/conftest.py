"""Models of a few hundred words in the letters a to h, for all tests of this folder."""

import numpy as np
import pytest

import pbos


@pytest.fixture(scope="session")
def vectors():
    random = np.random.default_rng(5)
    letters = list("abcdefgh")
    words = sorted({"".join(random.choice(letters, random.integers(2, 9))) for _ in range(300)})
    return pbos.WordVectors(words, random.normal(size=(len(words), 24)).astype(np.float32))


@pytest.fixture(scope="session", params=["default", "pbos", "bos", "pbos-n"])
def model(request, vectors):
    return pbos.train(vectors, preset=request.param, epochs=10, keep_targets=True)


@pytest.fixture(scope="session")
def small(vectors):
    return pbos.train(vectors, preset="pbos", epochs=10, keep_targets=False)
