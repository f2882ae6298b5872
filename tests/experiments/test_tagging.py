"""The tagger against dense features in plain NumPy, finite differences and scikit-learn."""

import gzip
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from experiments.tagging import (
    Windows,
    accuracies,
    contexts,
    fit,
    flatten,
    log_loss,
    tagging,
    vector_table,
)
from pbos import InputError, WordVectors


class Table:
    """Vectors for some words, zeros for all others."""

    def __init__(self, vectors: WordVectors):
        self.vectors, self.dims, self.asked = vectors, vectors.dims, []

    def embed(self, words):
        self.asked.extend(words)
        rows = np.array([self.vectors.row_of.get(word, -1) for word in words])
        return np.where(rows[:, None] < 0, np.float32(0), self.vectors.vectors[rows])


def made_up(seed, n_sentences=60, n_words=40, n_tags=4, dims=6):
    """Sentences whose tags depend on a word's vector and on the word before it."""
    random = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(n_words)]
    vectors = random.normal(size=(n_words, dims))
    rule = random.normal(size=(2, dims, n_tags))
    sentences = []
    for _ in range(n_sentences):
        ids = random.integers(0, n_words, random.integers(1, 9))
        before = np.vstack([np.zeros(dims), vectors[ids[:-1]]])
        scores = vectors[ids] @ rule[0] + before @ rule[1] + random.gumbel(size=(len(ids), n_tags))
        sentences.append([(words[i], f"T{tag}") for i, tag in zip(ids, scores.argmax(axis=1), strict=True)])
    return Table(WordVectors(words, vectors)), sentences


def prepared(model, sentences, dtype=np.float64, window=2):
    """Return windows, tag numbers, and the features as the textbook has them."""
    tokens = flatten(sentences, "training", lowercase=True)
    words = sorted(set(tokens.words))
    rows = {word: row for row, word in enumerate(words, 1)}
    vectors = vector_table(model, words).astype(dtype)
    _, tags = np.unique(tokens.tags, return_inverse=True)
    return Windows(vectors, contexts(tokens, rows, window)), tags, textbook_features(model, sentences, window)


def textbook_features(model, sentences, window=2):
    rows = []
    for sentence in sentences:
        vectors = model.embed([word.lower() for word, _ in sentence])
        for i in range(len(sentence)):
            near = range(i - window, i + window + 1)
            rows.append([vectors[j] if 0 <= j < len(sentence) else np.zeros(model.dims) for j in near])
    return np.array(rows, np.float64).reshape(len(rows), -1)


def textbook_loss(theta, features, tags, c):
    """The formula, one token at a time."""
    loss, gradient = np.sum(theta[:-1] ** 2) / (2 * c), np.vstack([theta[:-1] / c, np.zeros(theta.shape[1])])
    for feature, tag in zip(np.hstack([features, np.ones((len(features), 1))]), tags, strict=True):
        scores = feature @ theta
        probs = np.exp(scores) / np.exp(scores).sum()
        loss -= np.log(probs[tag])
        gradient += np.outer(feature, probs - (np.arange(len(probs)) == tag))
    return loss, gradient


def scikit(features, tags, c=1.0, tol=1e-7):
    linear = pytest.importorskip("sklearn.linear_model")
    with threadpool_limits(1, "blas"):
        return linear.LogisticRegression(C=c, tol=tol, max_iter=20_000).fit(features, tags)


def read_sentences(path):
    text = gzip.decompress(path.read_bytes()).decode().strip("\n")
    return [[tuple(line.split("\t")) for line in block.split("\n")] for block in text.split("\n\n")]


@pytest.fixture(scope="module")
def kazakh(shared_data):
    """The smallest treebank (4,949 training words) and its target vectors: model, train, test."""
    parts = (read_sentences(shared_data / "ud-pos" / f"kk.{part}.tsv.gz") for part in ("train", "test"))
    return Table(WordVectors.read(shared_data / "vectors" / "selftrained-kk")), *parts


# Features and loss


@pytest.mark.parametrize("window", [0, 1, 2, 3])
def test_the_window_stops_at_the_sentence(window):
    """No token sees a word of another sentence, in sentences of one and two words too."""
    model, sentences = made_up(0, n_sentences=20)
    windows, _, features = prepared(model, sentences, window=window)
    assert (windows.features(slice(None))[:, :-1] == features).all()
    assert (windows.features(np.array([3, 1]))[:, :-1] == features[[3, 1]]).all()


def test_scores_are_features_times_weights():
    model, sentences = made_up(1)
    windows, _, features = prepared(model, sentences)
    theta = np.random.default_rng(1).normal(size=(features.shape[1] + 1, 4))
    assert np.allclose(windows.scores(theta), features @ theta[:-1] + theta[-1])


@pytest.mark.parametrize("c", [0.1, 1.0, 30.0])
def test_loss_and_gradient_are_those_of_the_formula(c):
    model, sentences = made_up(2)
    windows, tags, features = prepared(model, sentences)
    theta = np.random.default_rng(2).normal(size=(features.shape[1] + 1, 4))
    loss, gradient = log_loss(theta, windows, tags, c)
    expected_loss, expected_gradient = textbook_loss(theta, features, tags, c)
    assert loss == pytest.approx(expected_loss)
    assert np.allclose(gradient, expected_gradient)


def test_the_gradient_is_the_slope_of_the_loss():
    model, sentences = made_up(3)
    windows, tags, features = prepared(model, sentences)
    random = np.random.default_rng(3)
    theta = random.normal(size=(features.shape[1] + 1, 4))
    _, gradient = log_loss(theta, windows, tags, 2.0)
    for _ in range(20):
        direction = random.normal(size=theta.shape)
        ahead, behind = (log_loss(theta + step * direction, windows, tags, 2.0)[0] for step in (1e-5, -1e-5))
        assert (ahead - behind) / 2e-5 == pytest.approx(np.sum(gradient * direction), rel=1e-6, abs=1e-4)


def test_float32_agrees_on_real_words(kazakh):
    model, train, _ = kazakh
    windows, tags, features = prepared(model, train, np.float32)
    n_tags = tags.max() + 1
    theta = np.random.default_rng(4).normal(size=(features.shape[1] + 1, n_tags)) * 0.1
    loss, gradient = log_loss(theta, windows, tags, 1.0)
    expected_loss, expected_gradient = textbook_loss(theta, features, tags, 1.0)
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    assert np.abs(gradient - expected_gradient).max() < 1e-5 * np.abs(expected_gradient).max()


def test_large_scores_do_not_overflow():
    model, sentences = made_up(5)
    windows, tags, features = prepared(model, sentences, np.float32)
    loss, gradient = log_loss(np.full((features.shape[1] + 1, 4), 1e4), windows, tags, 1.0)
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()


# Weights and accuracy


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_the_weights_are_scikit_learns(c):
    """Intercepts are determined up to a shared constant only, so they are compared centered."""
    model, sentences = made_up(6)
    windows, tags, features = prepared(model, sentences)
    theta = fit(windows, tags, 4, c=c, tolerance=1e-15)
    expected = scikit(features, tags, c)
    assert np.allclose(theta[:-1], expected.coef_.T, atol=1e-4)
    assert np.allclose(theta[-1] - theta[-1].mean(), expected.intercept_ - expected.intercept_.mean(), atol=1e-4)


def test_accuracy_is_scikit_learns_on_a_treebank(kazakh):
    model, train, test = kazakh
    tags, right = ([tag for sentence in part for _, tag in sentence] for part in (train, test))
    classifier = scikit(textbook_features(model, train), tags, tol=1e-5)
    expected = classifier.score(textbook_features(model, test), right)
    result = tagging(model, train, test, language="kk", known=model.vectors)
    assert result.main.value == pytest.approx(expected, abs=2.5 / 648)  # two of the 648 words
    assert result.main.low < result.main.value < result.main.high
    assert result.scores["accuracy, unknown words"].value < result.main.value
    assert result.details["training_words"] == 4949
    assert 0.3 < result.details["unknown_share"] < 0.4


def test_the_default_tolerance_is_near_the_lowest_loss(kazakh):
    model, train, _ = kazakh
    windows, tags, _ = prepared(model, train, np.float32)
    usual, lowest = (
        log_loss(fit(windows, tags, tags.max() + 1, **options), windows, tags, 1.0)[0] / len(tags)
        for options in ({}, {"tolerance": 1e-10})
    )
    assert lowest <= usual < lowest + 0.002


def test_the_same_seed_gives_the_same_result():
    model, sentences = made_up(7)
    first, second = (tagging(model, sentences[:40], sentences[40:], language="xx", seed=3) for _ in range(2))
    assert first == second


# What is counted


def test_words_are_asked_for_once_and_in_lower_case():
    model, sentences = made_up(8)
    shouted = [[(word.upper(), tag) for word, tag in sentence] for sentence in sentences]
    plain = tagging(model, sentences, sentences, language="xx")
    model.asked.clear()
    assert tagging(model, sentences, shouted, language="xx").scores == plain.scores
    assert len(model.asked) == len(set(model.asked))
    as_they_are = tagging(model, sentences, shouted, language="xx", lowercase=False)
    assert as_they_are.main.value < plain.main.value


def test_a_tag_unseen_in_training_counts_as_wrong():
    model, sentences = made_up(9)
    renamed = [[(word, "NEW") for word, _ in sentence] for sentence in sentences]
    assert tagging(model, sentences, renamed, language="xx").main.value == 0.0
    half = tagging(model, sentences, sentences + renamed, language="xx").main.value
    assert half == pytest.approx(tagging(model, sentences, sentences, language="xx").main.value / 2)


def test_unknown_words_are_those_not_in_known():
    model, sentences = made_up(10)
    known = {f"w{i}" for i in range(30)}
    result = tagging(model, sentences, sentences, language="xx", known=known)
    words = [word for sentence in sentences for word, _ in sentence]
    assert result.details["unknown_share"] == pytest.approx(np.mean([word not in known for word in words]))
    assert list(result.scores) == ["accuracy", "accuracy, unknown words"]
    everything = tagging(model, sentences, sentences, language="xx", known=set(words))
    assert everything.details["unknown_share"] == 0.0
    assert list(everything.scores) == ["accuracy"]
    nothing = tagging(model, sentences, sentences, language="xx", known=set())
    assert nothing.scores["accuracy, unknown words"] == nothing.main


def test_the_interval_comes_from_sentences():
    """If each sentence is all right or all wrong, ten times longer sentences do not change the interval."""
    hits = np.arange(100) % 4 > 0
    for length in (1, 10):
        tokens = flatten([[("word", "TAG")] * length] * 100, "test", lowercase=True)
        score = accuracies(np.repeat(hits, length), {"all": np.ones(100 * length, bool)}, tokens, seed=0)["all"]
        assert score.value == 0.75
        assert score.high - score.low == pytest.approx(2 * 1.96 * np.sqrt(0.75 * 0.25 / 100), rel=0.15)


def test_sentences_without_words_change_nothing():
    model, sentences = made_up(11)
    padded = [[], *sentences, []]
    expected = tagging(model, sentences, sentences, language="xx")
    assert tagging(model, padded, padded, language="xx") == expected


# Odd input


def test_without_vectors_the_most_frequent_tag_wins():
    model = Table(WordVectors(["other"], np.ones((1, 3))))
    train = [[("a", "X"), ("b", "Y"), ("c", "Y")]] * 30
    assert tagging(model, train, train, language="xx").main.value == pytest.approx(2 / 3)


def test_one_tag_is_always_right():
    model, sentences = made_up(12)
    same = [[(word, "X") for word, _ in sentence] for sentence in sentences]
    assert tagging(model, same, same, language="xx").main.value == 1.0


def test_repeated_dimensions_under_a_weak_penalty():
    """A duplicated dimension must not make the preconditioner's matrix singular."""
    model, sentences = made_up(13)
    twice = Table(WordVectors(model.vectors.words, np.repeat(model.vectors.vectors, 2, axis=1)))
    assert tagging(twice, sentences, sentences, language="xx", c=1e8).main.value > 0.6


def test_empty_sets_are_rejected():
    model, sentences = made_up(14)
    with pytest.raises(InputError, match="the test set contains no words"):
        tagging(model, sentences, [], language="xx")
    with pytest.raises(InputError, match="the training set contains no words"):
        tagging(model, [[]], sentences, language="xx")


def test_bad_settings_and_vectors_are_rejected():
    model, sentences = made_up(15)
    for settings in ({"c": 0.0}, {"c": float("nan")}, {"window": -1}):
        with pytest.raises(InputError, match="need c > 0 and window >= 0"):
            tagging(model, sentences, sentences, language="xx", **settings)
    broken = model.vectors.vectors.copy()
    model = Table(SimpleNamespace(dims=model.dims, row_of=model.vectors.row_of, vectors=broken))
    broken[7, 2] = np.nan
    with pytest.raises(InputError, match="'w7' contains NaN"):
        tagging(model, sentences, sentences, language="xx")
