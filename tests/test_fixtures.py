"""The data set in tests/fixtures: as its recipe makes it, and fit for tests of training."""

import runpy

import numpy as np
from places import FIXTURES, ROOT

import pbos


def test_the_recipe_makes_the_committed_files(tmp_path):
    runpy.run_path(str(ROOT / "scripts" / "make_fixture.py"))["main"](tmp_path)
    files = [path.relative_to(FIXTURES) for path in sorted(FIXTURES.rglob("*")) if path.is_file()]
    assert files == [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    for file in files:
        if file.suffix == ".npy":  # the last digit may differ between systems
            assert np.allclose(np.load(tmp_path / file), np.load(FIXTURES / file), atol=1e-2)
        else:
            assert (tmp_path / file).read_bytes() == (FIXTURES / file).read_bytes()


def test_the_files_belong_together(small_vectors, small_counts, small_morphemes):
    assert list(small_morphemes) == small_counts.words
    assert small_counts.words[: len(small_vectors)] == small_vectors.words


def test_spelling_predicts_the_vectors(small_vectors, small_counts):
    """A vector is the sum of four morphemes and noise; nearly everything but the noise can be learned."""
    model = pbos.train(small_vectors, small_counts, heldout=0.1)
    assert 0.85 < model.info["training"]["heldout_cosine"] < 1
