"""What the tests of the command line have in common: small models and files in the folder where commands run."""

import numpy as np
import pytest

import pbos


@pytest.fixture
def counts(tmp_path):
    """Word counts in counts.csv."""
    (tmp_path / "counts.csv").write_text("word,count\nhigh,60\nhigher,20\ner,20\n")
    return "counts.csv"


@pytest.fixture
def model(tmp_path):
    """A model in the folder m, which has the given vectors and no confidence."""
    words = ["high", "higher", "low", "lower", "slow"]
    pbos.train((words, np.eye(5)), keep_targets=True).save(tmp_path / "m")
    return pbos.load(tmp_path / "m")


@pytest.fixture
def trusted(confident, tmp_path):
    """A model in the folder trusted, which has a confidence."""
    confident.save(tmp_path / "trusted")
    return "trusted"


@pytest.fixture
def vectors(tmp_path):
    """Word vectors in v.vec."""
    lines = ["5 3", "high 1 0 0", "higher 1 1 0", "low 0 0 1", "lower 0 1 1", "slow 0 0 0.5"]
    (tmp_path / "v.vec").write_text("\n".join(lines) + "\n")
    return "v.vec"
