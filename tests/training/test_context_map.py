"""The map from contexts to vectors, in worlds in which the answer is known."""

from types import SimpleNamespace

import numpy as np
import pytest

from pbos.contexts import facts_of
from pbos.corpus.cooccurrences import Counting
from pbos.training import contexts as training
from pbos.training.contexts import fit_map, fit_matrix
from pbos.training.system import HeldOut


def units(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-30)


def cosines(left, right):
    return np.sum(units(np.float64(left)) * units(np.float64(right)), axis=1)


def test_the_matrix_solves_the_normal_equations():
    generator = np.random.default_rng(0)
    features, true = generator.normal(size=(700, 12)).astype(np.float32), generator.normal(size=(12, 4))
    given = (features @ true + generator.normal(0, 0.5, (700, 4))).astype(np.float32)
    shares = generator.uniform(0.1, 1, 700)
    x, w = features.astype(np.float64), np.diag(shares)
    squares = x.T @ w @ x
    penalty = training.LAM * np.mean([squares[at, at] for at in range(12)]) * np.eye(12)
    expected = np.linalg.inv(squares + penalty) @ x.T @ w @ given
    np.testing.assert_allclose(fit_matrix(features, given, shares), expected, rtol=1e-3, atol=1e-4)


class World:
    """Words whose true vectors are their mean contexts times a known matrix; with fewer contexts there is more noise.

    It takes the place of `TextContexts`. The first `n_known` words of the text are those of the table, in disorder.
    """

    def __init__(self, n_words=6000, n_known=5000, dims=8, seed=0, noise=3.0):
        generator, self.noise = np.random.default_rng(seed), noise  # of one occurrence
        counts = np.maximum(generator.zipf(1.3, n_words).clip(0, 5000), 6)
        self.counted = SimpleNamespace(
            counts=counts, counting=Counting(), words_at=lambda places: [f"w{at}" for at in places.tolist()]
        )
        self.rows = np.where(np.arange(n_words) < n_known, generator.permutation(n_words), -1)
        self.rows[:n_known] = generator.permutation(n_known)
        self.matrix = generator.normal(size=(3 * dims, dims)) / 5
        self.means = generator.normal(size=(n_words, 3 * dims)) + 0.3
        self.true = self.means @ self.matrix
        self.targets = np.empty((n_known, dims), np.float32)
        self.targets[self.rows[:n_known]] = self.true[:n_known]

    def features(self, places, left=None):
        generator = np.random.default_rng(left or 0)
        n_times = self.counted.counts[places] if left is None else np.full(places.size, left)
        noise = generator.normal(size=(places.size, self.means.shape[1])) * self.noise / np.sqrt(n_times)[:, None]
        return (self.means[places] + noise).astype(np.float32)

    def spelled(self, places, seed):
        """Vectors at known cosines with the true ones, on average .1 less than the trust in them."""
        generator = np.random.default_rng(seed)
        cosine = generator.uniform(0.1, 0.8, places.size)
        away = generator.normal(size=(places.size, self.true.shape[1]))
        direction = units(self.true[places])
        away = units(away - np.sum(away * direction, axis=1, keepdims=True) * direction)
        vectors = cosine[:, None] * direction + np.sqrt(1 - cosine**2)[:, None] * away
        return vectors.astype(np.float32), (cosine + 0.1).astype(np.float32)


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module")
def held(world):
    places = np.flatnonzero(world.rows >= 0)[::2]
    places = places[np.argsort(world.rows[places])]
    vectors, trust = world.spelled(places, 1)
    return HeldOut(world.rows[places], vectors, trust, np.eye(vectors.shape[1], dtype=np.float32))


def test_the_map_finds_the_matrix_of_the_world(held):
    world = World(noise=0.1)
    found = fit_map(world, world.targets, held, seed=0)
    np.testing.assert_allclose(found.matrix, world.matrix, atol=0.01)
    assert found.counting.tolist() == [5, 1, 0]
    again = fit_map(world, world.targets, held, seed=0)
    assert all(np.array_equal(array, again.tensors()[name]) for name, array in found.tensors().items())


def test_the_matrix_is_not_fitted_to_words_that_are_held_out(world, held):
    found, targets = fit_map(world, world.targets, held, seed=0), world.targets.copy()
    targets[held.rows] += 1
    other = fit_map(world, targets, held, seed=0).tensors()
    changed = {name for name, array in found.tensors().items() if not np.array_equal(array, other[name])}
    assert changed
    assert all("of_spelling" in name or "of_contexts" in name for name in changed)


def test_frequent_words_count_as_when_a_text_is_thinned(world, held):
    found = fit_map(world, world.targets, held, seed=0)
    n_tokens = max(world.counted.counts.sum(), 1_000_000)
    expected = {}
    for at, count in enumerate(world.counted.counts.tolist()):
        share = 1e-4 * n_tokens / count
        if share + share**0.5 < 1:
            expected[f"w{at}"] = share + share**0.5
    assert 0 < len(expected) < 1000
    assert found._kept == pytest.approx(expected, rel=1e-5)


def test_mixtures_of_a_known_world_are_better_and_calibrated(world, held):
    """Of words that were not used for anything: better than either alone, and as good as is said."""
    contexts, places = fit_map(world, world.targets, held, seed=0), np.flatnonzero(world.rows < 0)
    spelled, trust = world.spelled(places, 2)
    for left in (1, 2, 4, 16, 64):
        features = world.features(places, left)
        mixed = contexts.mix(2 * spelled, trust, features, np.full(places.size, left))
        alone = cosines(features @ contexts.matrix.astype(np.float32), world.true[places])
        found, spelling = cosines(mixed.vectors, world.true[places]), cosines(spelled, world.true[places])
        assert found.mean() > max(alone.mean(), spelling.mean()) + 0.005
        assert mixed.confidence.mean() == pytest.approx(found.mean(), abs=0.03)
        order = np.argsort(mixed.confidence)
        for tenth in np.array_split(order, 5):
            assert mixed.confidence[tenth].mean() == pytest.approx(found[tenth].mean(), abs=0.07)
        assert np.corrcoef(mixed.shares, trust)[0, 1] < -0.3
        np.testing.assert_allclose(np.linalg.norm(mixed.vectors, axis=1), 2, rtol=1e-4)


def test_trust_that_says_too_much_is_corrected(world, held):
    """Trust was .1 too high for all; what is expected of the spelling is what it deserves, whatever contexts say."""
    contexts, places = fit_map(world, world.targets, held, seed=0), np.flatnonzero(world.rows < 0)
    spelled, trust = world.spelled(places, 3)
    vectors = world.features(places, 1) @ contexts.matrix.astype(np.float32)
    in_common = np.sum(units(spelled) * units(vectors), axis=1)
    found, _ = contexts.expected[0].cosines(facts_of(trust, in_common, vectors, np.ones(places.size)))
    assert np.mean(trust - cosines(spelled, world.true[places])) == pytest.approx(0.1, abs=1e-3)
    assert np.mean(found - cosines(spelled, world.true[places])) == pytest.approx(0, abs=0.02)


def test_expectations_of_a_text_are_those_of_words_as_often_as_they_occur(world, held):
    """With all occurrences, also of rare words, a mixture is as good as is said."""
    contexts, places = fit_map(world, world.targets, held, seed=0), np.flatnonzero(world.rows < 0)
    spelled, trust = world.spelled(places, 4)
    counts, features = world.counted.counts[places], world.features(places)
    mixed = contexts.mix(spelled, trust, features, counts, in_text=True)
    found = cosines(mixed.vectors, world.true[places])
    for some in (counts < 10, counts >= 10, mixed.confidence < np.median(mixed.confidence)):
        assert mixed.confidence[some].mean() == pytest.approx(found[some].mean(), abs=0.03)


def test_few_held_out_words_are_enough_for_numbers(world, held):
    few = held._replace(rows=held.rows[:20], vectors=held.vectors[:20], confidence=held.confidence[:20])
    contexts, places = fit_map(world, world.targets, few, seed=0), np.flatnonzero(world.rows < 0)
    spelled, trust = world.spelled(places, 5)
    for in_text in (False, True):
        mixed = contexts.mix(spelled, trust, world.features(places, 4), np.full(places.size, 4), in_text=in_text)
        assert all(np.isfinite(part).all() for part in mixed)
