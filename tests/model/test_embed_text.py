"""The vectors of texts, and the names that other libraries have for what a model does."""

import pickle
import warnings

import numpy as np
import pytest

import pbos
from pbos import InputError, PbosWarning
from pbos import model as model_module


@pytest.fixture(scope="module")
def english():
    return pbos.load()


TEXT = "the higher tower, the lower tower"


def textbook_mean(model, words, counts=None, unit=False):
    total, n = np.zeros(model.dims), 0
    for word in words:
        vector = model[word].astype(float)
        if vector.any():
            n += 1
            weight = 1 if counts is None else 0.001 / (0.001 + counts.get(word, 0) / sum(counts.values()))
            total += weight * vector / (np.linalg.norm(vector) if unit else 1)
    return total / max(n, 1)


@pytest.mark.parametrize("options", [{}, {"unit": True}, {"counts": {"the": 90, "tower": 10}}])
def test_the_vector_of_a_text_is_the_mean_of_those_of_its_words(english, options):
    texts = [TEXT, "", "\u4e00 higher", "Don't, don't!"]
    words = [["the", "higher", "tower", "the", "lower", "tower"], [], ["\u4e00", "higher"], ["Don't", "don't"]]
    expected = [textbook_mean(english, one, **options) for one in words]
    assert not english["\u4e00"].any()
    assert np.allclose(english.embed_text(texts, **options), expected, atol=1e-6)
    assert np.array_equal(english.embed_text(TEXT, **options), english.embed_text([TEXT], **options)[0])


def test_the_mean_that_fasttext_has(english):
    """That of unit vectors, as `get_sentence_vector` of fastText."""
    vectors = english.embed(["higher", "tower"])
    expected = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)
    assert np.allclose(english.embed_text("higher tower", unit=True), expected, atol=1e-6)


def test_what_is_no_text(english):
    with pytest.raises(InputError, match="got int"):
        english.embed_text(5)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("most_similar", "neighbors"),
        ("get_word_vector", "embed"),
        ("get_sentence_vector", "embed_text"),
        ("key_to_index", "words"),
        ("wv", "keyed_vectors"),
    ],
)
def test_names_of_other_libraries_lead_to_ours(english, name, use):
    with pytest.raises(AttributeError, match=rf"a pbos model has no {name}; use .*{use}"):
        getattr(english, name)
    assert not hasattr(english, name)


def test_other_missing_names_are_missing(english):
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'no_such_thing'"):
        english.no_such_thing  # noqa: B018
    assert pickle.loads(pickle.dumps(english)).dims == english.dims


def test_a_text_as_a_word_gets_a_warning_once(english, monkeypatch):
    model_module.warn_of_text.cache_clear()
    with pytest.warns(PbosWarning, match="use embed_text"):
        english.embed("the cat sat")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        english.embed("the dog sat")
        model_module.warn_of_text.cache_clear()
        english.embed("new york")
        pbos.train({"the cat sat": [1.0, 2.0], "cat": [1.0, 1.0]}, lam=1.0).embed("the cat sat")
