"""Similarity and held-out words, compared with SciPy and brute force."""

import json

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

import pbos
from pbos.errors import InputError
from pbos.evaluation import datasets, words
from pbos.tables.word_vectors import WordVectors


class Table:
    """An embedder with vectors for some words and zeros for all others."""

    def __init__(self, vectors):
        self.vectors = {word: np.array(vector, np.float32) for word, vector in vectors.items()}
        self.dims = len(next(iter(self.vectors.values())))

    def embed(self, words):
        return np.stack([self.vectors.get(word, np.zeros(self.dims, np.float32)) for word in words])


# Similarity -----------------------------------------------------------------------------------------------------------


def test_targets_have_vectors_for_their_own_words_only():
    targets = words.Targets(WordVectors(["high", "low"], np.eye(2)))
    assert targets.embed(["low", "High", "low"]).tolist() == [[0, 1], [0, 0], [0, 1]]
    assert targets.embed([]).shape == (0, targets.dims)


def test_ranks_are_scipys():
    for values in (np.random.default_rng(0).integers(9, size=50), np.array([0.5, -1.0, 0.5, 3.0]), np.zeros(3)):
        assert words.ranks(values).tolist() == rankdata(values).tolist()


def test_similarity_is_scipys_on_real_pairs(shared_data):
    model, pairs = pbos.load(), datasets.read_pairs(shared_data / "similarity" / "rareword.txt")
    found = words.similarity(model, pairs, "RareWord", repeats=100)
    first, second, human = zip(*pairs, strict=True)
    cosines = model.similarity([word.lower() for word in first], [word.lower() for word in second])
    assert found.main.value == pytest.approx(100 * spearmanr(cosines, human).statistic, abs=1e-9)
    assert found.main.low < found.main.value < found.main.high
    assert found.details["pairs"] == 2034
    assert json.loads(json.dumps(found.to_dict()))["dataset"] == "RareWord"


def test_difference_is_that_of_resampled_spearmans():
    random = np.random.default_rng(1)
    tables = [Table({f"w{at}": random.normal(size=2) for at in range(60)}) for _ in range(2)]
    pairs = [(f"w{at}", f"w{at + 1}", float(random.integers(5))) for at in range(59)]
    first, second = (words.similarity(table, pairs, keep_cosines=True, repeats=20) for table in tables)
    found = words.difference(first, second, repeats=200, seed=3)
    assert found.value == pytest.approx(first.main.value - second.main.value)
    cosines = [pbos.cosines(*words.embed_pairs(table, pairs)) for table in tables]
    human = np.array([score for _, _, score in pairs])
    draws = np.random.default_rng(3)
    gaps = []
    for _ in range(200):
        drawn = draws.integers(0, 59, 59)
        one, other = (spearmanr(near[drawn], human[drawn]).statistic for near in cosines)
        gaps.append(100 * (one - other))
    assert [found.low, found.high] == pytest.approx(np.percentile(gaps, [2.5, 97.5]).tolist())
    assert words.difference(first, first) == words.Score(0.0, 0.0, 0.0)


def test_interval_is_that_of_resampled_spearman():
    random = np.random.default_rng(1)
    table = Table({f"w{at}": random.normal(size=2) for at in range(60)})
    pairs = [(f"w{at}", f"w{at + 1}", float(random.integers(5))) for at in range(59)]
    found = words.similarity(table, pairs, repeats=200, seed=3)
    left, right = words.embed_pairs(table, pairs)
    near = pbos.cosines(left, right)
    human = np.array([score for _, _, score in pairs])
    draws = np.random.default_rng(3)
    rhos = []
    for _ in range(200):
        drawn = draws.integers(0, 59, 59)
        rhos.append(100 * spearmanr(near[drawn], human[drawn]).statistic)
    assert [found.main.low, found.main.high] == pytest.approx(np.percentile(rhos, [2.5, 97.5]).tolist())


def test_missing_pairs_score_zero_or_are_dropped():
    """Near zero counts as missing; capitals do not; the underscore stays."""
    table = Table({"a": [1, 0], "b": [1, 1], "c": [-1, 0], "new_york": [1, 0.1], "tiny": [1e-7, 0]})
    pairs = [("A", "b", 5), ("a", "New_York", 9), ("a", "c", 1), ("a", "tiny", 7), ("nothing", "b", 8)]
    found = words.similarity(table, pairs)
    near = [0.70710678, 0.99503719, -1, 0, 0]
    human = [5, 9, 1, 7, 8]
    assert found.main.value == pytest.approx(100 * spearmanr(near, human).statistic)
    assert found.scores["spearman, pairs with both vectors"].value == pytest.approx(100)
    assert found.details["missing_pairs"] == 2
    assert found.main.low is None  # too few pairs for an interval


def test_without_any_vector_the_correlation_is_zero():
    found = words.similarity(Table({"a": [1, 0]}), [("x", "y", 1), ("y", "z", 2), ("z", "x", 3)])
    assert [score.value for score in found.scores.values()] == [0, 0]
    with pytest.raises(InputError, match="mine: similarity needs at least two pairs, got 1"):
        words.similarity(Table({"a": [1, 0]}), [("x", "y", 1)], "mine")


# Held-out words -------------------------------------------------------------------------------------------------------


def brute_force_rank(query, targets, row):
    near = [float(np.dot(query, t) / (np.linalg.norm(query) * np.linalg.norm(t))) for t in targets.astype(np.float64)]
    return 1 + sum(value > near[row] for value in near)


def test_true_ranks_are_brute_force(monkeypatch):
    random = np.random.default_rng(0)
    targets = random.normal(size=(50, 4)).astype(np.float32)
    rows = np.arange(0, 50, 3)
    queries = (targets[rows] + random.normal(size=(len(rows), 4))).astype(np.float32)
    expected = [brute_force_rank(query, targets, row) for query, row in zip(queries, rows, strict=True)]
    assert words.true_ranks(queries, targets, rows).tolist() == expected
    monkeypatch.setattr(words, "BLOCK_BYTES", 1)  # a query at a time
    assert words.true_ranks(queries, targets, rows).tolist() == expected


def test_a_zero_query_is_ranked_in_the_middle():
    targets = np.eye(5, dtype=np.float32)
    assert words.true_ranks(np.zeros((1, 5), np.float32), targets, np.array([0])).tolist() == [3.0]


def test_heldout_with_a_perfect_and_an_empty_model():
    random = np.random.default_rng(0)
    vectors = WordVectors([f"w{at}" for at in range(100)], random.normal(size=(100, 8)))
    seen = []

    def perfect(left):
        seen.append(set(left.words))
        return Table(dict(zip(vectors.words, vectors.vectors, strict=True)))

    found = words.heldout(perfect, vectors, 0.3, seed=5, dataset="mine", repeats=50)
    assert len(seen[0]) == 70
    assert list(found.scores)[:4] == ["cosine", "MRR", "hits@1", "hits@10"]
    assert [score.value for score in found.scores.values()] == pytest.approx([1] * 8)
    assert (found.details["hidden"], found.details["tail"], found.details["missing"]) == (30, 15, 0)

    found = words.heldout(lambda left: Table({"other": np.ones(8)}), vectors, 40, seed=5)
    assert found.scores["cosine"].value == found.scores["hits@10"].value == 0
    assert found.details["missing"] == 40


def test_heldout_of_a_trained_model(shared_data):
    vectors = WordVectors.read(shared_data / "vectors" / "googlenews-en-8k", limit=1500)
    models = []

    def train(left):
        models.append((set(left.words), pbos.train(left, preset="pbos", epochs=5, progress=False)))
        return models[-1][1]

    found = words.heldout(train, vectors, 150, repeats=50)
    seen, model = models[0]
    true = {word: vector for word, vector in zip(vectors.words, vectors.vectors, strict=True) if word not in seen}
    near = [np.dot(model[word], v) / np.linalg.norm(model[word]) / np.linalg.norm(v) for word, v in true.items()]
    assert len(true) == 150
    assert found.main.value == pytest.approx(np.mean(near), abs=1e-5)
    assert found.main.value == pytest.approx(0.351, abs=0.02)
    assert found == words.heldout(train, vectors, 150, repeats=50)


@pytest.mark.parametrize("hidden", [0, 4, 5, -1, 0.0, 1.0, 0.01])
def test_holding_out_too_few_or_too_many(hidden):
    vectors = WordVectors(["a", "b", "c", "d"], np.eye(4))
    with pytest.raises(InputError, match="hold out"):
        words.heldout(lambda left: Table({"a": [1]}), vectors, hidden)
