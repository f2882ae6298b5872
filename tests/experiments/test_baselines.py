"""KVQ-FH against loops in NumPy, the nearest spelling against the textbook, fastText."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments import kvq, neural
from experiments.baselines import FastText, NearestSpelling
from experiments.kvq import KVQ, Settings, frequent_ngrams, table_rows
from pbos import InputError, WordVectors

WORDS = ["high", "higher", "highest", "low", "lower", "lowest", "banana", "a", "naïveté", "字典", "🙂🙂🙂"]
SMALL = Settings(rows=50)


def targets():
    return np.random.default_rng(0).normal(size=(len(WORDS), 8)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    return KVQ.train(WORDS, targets(), epochs=3, batch=4, lr=0.01, settings=SMALL)


# KVQ-FH ---------------------------------------------------------------------------------------------------------------


def all_ngrams(words, longest=30):
    """All n-grams of 3 characters and more: shorter ones first, then by word, then from the left."""
    marked = [f"<{word}>" for word in words]
    return [
        word[start : start + n] for n in range(3, longest + 1) for word in marked for start in range(len(word) - n + 1)
    ]


def slow_known(words, frequent):
    """Python's sort is stable, and a Counter keeps the order of first appearance."""
    counts = Counter(all_ngrams(words))
    return set(sorted(counts, key=lambda ngram: -counts[ngram])[:frequent])


def slow_vector(word, tables, known, rows, per_word=200):
    """The definition, one dimension at a time, in float64."""
    tables, dims = tables.astype(np.float64), tables.shape[1]
    found = [table_rows(ngram, rows) for ngram in all_ngrams([word]) if ngram in known][:per_word]
    if not found:
        return np.zeros(dims)
    query = sum(tables[row] for _, _, row in found)
    vector = np.zeros(dims)
    for dim in range(dims):
        logits = [query[dim] * tables[key, dim] * np.sqrt(dims) for key, _, _ in found]
        powers = [np.exp(logit - max(logits)) for logit in logits]
        vector[dim] = sum(p * tables[value, dim] for p, (_, value, _) in zip(powers, found, strict=True)) / sum(powers)
    return vector


def test_rows_never_change():
    """SplitMix64 from the published FNV-1a hash of `foobar`, 0x85944171f73967e8, computed elsewhere."""
    assert table_rows("foobar", 40_000) == (38415, 49059, 118552)


@pytest.mark.parametrize("frequent", [500_000, 20])
def test_vectors_match_the_slow_version(frequent):
    chosen = Settings(rows=50, frequent=frequent)
    model = KVQ.train(WORDS, targets(), epochs=5, batch=4, lr=0.1, settings=chosen)
    known = slow_known(WORDS, frequent)
    words = [*WORDS, "lowhigh", "bananananana", "zzz", "low" * 20]
    expected = [slow_vector(word, model.tables.numpy(), known, chosen.rows) for word in words]
    np.testing.assert_allclose(model.embed(words), expected, atol=1e-5)


def test_training_reaches_the_targets():
    model = KVQ.train(WORDS, targets(), epochs=80, batch=6, lr=0.03, settings=Settings(rows=500))
    found, wanted = model.embed(WORDS), targets()
    cosines = (found * wanted).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(wanted, axis=1)
    assert model.losses[-1] < 0.01 * model.losses[0]
    assert cosines.min() > 0.99


def test_the_same_seed_gives_the_same_model(model):
    again, other = (KVQ.train(WORDS, targets(), epochs=3, batch=4, lr=0.01, seed=s, settings=SMALL) for s in (0, 1))
    assert torch.equal(model.tables, again.tables)
    assert model.losses == again.losses
    assert not torch.equal(model.tables, other.tables)


def test_only_the_most_frequent_ngrams_are_known():
    words = ["high", "higher", "low"]
    for frequent in (1, 3, 6, 9):
        assert set(frequent_ngrams(words, Settings(frequent=frequent))) == slow_known(words, frequent)


def test_a_word_uses_at_most_200_ngrams():
    words = ["abcdefghijklmnopqrstuvwxyz", "low"]
    model = KVQ.train(words, np.ones((2, 2)), epochs=1, settings=SMALL)
    found = model.rows_of(words[0])
    assert (len(found), len(model.rows_of("low"))) == (200, 6)
    assert [tuple(rows) for rows in found.tolist()] == [table_rows(ngram, 50) for ngram in all_ngrams(words[:1])[:200]]


def test_a_word_without_known_ngrams_gets_zeros(model):
    vectors = model.embed(["zzz", "high"])
    assert not vectors[0].any()
    assert vectors[1].any()
    assert not model.embed(["zzz"]).any()
    assert model.embed([]).shape == (0, 8)


def test_jobs_give_the_model_that_is_trained_here(tmp_path):
    """What kvq.py writes elsewhere, rounded to float16, is what training here gives."""
    neural.write_job(tmp_path / "job.npz", WORDS, targets(), np.arange(len(WORDS)), ["higher", "für", "zzz"])
    with np.load(tmp_path / "job.npz") as job:
        np.testing.assert_allclose(job["vectors"], targets(), rtol=0.0025, atol=1e-6)
        rounded = job["vectors"]
    kvq.main([str(tmp_path / "job.npz"), str(tmp_path / "made"), "--device", "cpu", "--epochs", "2"])
    words, found = neural.read_vectors(tmp_path / "made" / "job.npz")
    expected = KVQ.train(WORDS, rounded, epochs=2).embed(["higher", "für", "zzz"])
    assert words == ["higher", "für", "zzz"] and not found[2].any()
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_nothing_to_learn():
    with pytest.raises(InputError, match="nothing to learn"):
        KVQ.train(WORDS, np.zeros((11, 3)))


# The others -----------------------------------------------------------------------------------------------------------


def levenshtein(first, second):
    line = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        previous, line = line, [i]
        for j, b in enumerate(second, 1):
            line.append(min(previous[j - 1] + (a != b), previous[j] + 1, line[j - 1] + 1))
    return line[-1]


SPELLINGS = st.text("abc字", min_size=1, max_size=9)


@given(st.lists(SPELLINGS, min_size=1, max_size=12, unique=True), st.lists(SPELLINGS, max_size=6))
def test_the_nearest_spelling_is_the_textbook_one(vocabulary, queries):
    """Of equally near words the earlier one, which is the more frequent; min() takes the first of equals too."""
    vectors = WordVectors(vocabulary, np.arange(len(vocabulary), dtype=np.float32)[:, None])
    expected = [min(range(len(vocabulary)), key=lambda row: levenshtein(query, vocabulary[row])) for query in queries]
    assert NearestSpelling(vectors).embed(queries).ravel().tolist() == expected


def test_the_nearest_spelling_of_many_words():
    random = np.random.default_rng(0)
    words = list({"".join(random.choice(list("abcdef"), 8)) for _ in range(400)})
    vectors = WordVectors(words[:50], np.arange(50, dtype=np.float32)[:, None])
    expected = [min(range(50), key=lambda row: levenshtein(word, words[row])) for word in words]
    assert NearestSpelling(vectors).embed(words).ravel().tolist() == expected


def test_fasttext(tmp_path):
    pytest.importorskip("fasttext")
    (tmp_path / "text.txt").write_text("the high house is higher than the low house\n" * 50, encoding="utf-8")
    given_words = ["high", "higher", "house", "low"]
    model, again = (
        FastText.train(tmp_path / "text.txt", dims=8, vocabulary=given_words, buckets=1000, threads=1) for _ in range(2)
    )
    assert set(model.model.words) - {"</s>"} == set(given_words)
    vectors = model.embed(["high", "highest"])
    assert vectors.shape == (2, model.dims)
    assert vectors.any(axis=1).all()
    assert np.array_equal(vectors, again.embed(["high", "highest"]))
    with pytest.raises(InputError, match="contains none of the words"):
        FastText.train(tmp_path / "text.txt", dims=8, vocabulary=["other"])
