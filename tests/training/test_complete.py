"""complete(): compared with tables put together by hand."""

import unicodedata

import numpy as np
import pytest

import pbos
from pbos.errors import InputError, PbosWarning


@pytest.fixture(scope="module")
def given(small_vectors):
    """The first 1,500 words of a language, with vectors that become shorter from word to word."""
    lengths = np.linspace(9, 3, 1500, dtype=np.float32)[:, None]
    units = small_vectors.vectors[:1500] / np.linalg.norm(small_vectors.vectors[:1500], axis=1, keepdims=True)
    return pbos.WordVectors(small_vectors.words[:1500], units * lengths)


@pytest.fixture(scope="module")
def new(small_vectors):
    return small_vectors.words[1500:]


@pytest.fixture(scope="module")
def model(given):
    return pbos.train(given, lam=0.01)


def test_given_words_then_new_ones(given, new, model):
    asked = [new[3], given.words[7], new[1], new[3], "ЖЖ", given.words[0]]
    table = pbos.complete(given, asked, model=model)
    assert table.words == [*given.words, new[3], new[1]]
    assert table.vectors[:1500].tobytes() == given.vectors.tobytes()
    composed = model.embed([new[3], new[1]]).astype(np.float64)
    length = np.mean([np.linalg.norm(vector) for vector in given.vectors[1350:]])
    assert 3 < length < 4  # that of the rare words
    expected = length * composed / np.linalg.norm(composed, axis=1)[:, None]
    np.testing.assert_allclose(table.vectors[1500:], expected, rtol=1e-5)


def test_the_path_of_a_model(given, new, model, tmp_path):
    model.save(tmp_path / "model")
    expected = pbos.complete(given, new[:9], model=model)
    for path in (tmp_path / "model", str(tmp_path / "model")):
        table = pbos.complete(given, new[:9], model=path)
        assert (table.words, table.vectors.tobytes()) == (expected.words, expected.vectors.tobytes())
    with pytest.raises(pbos.ModelError, match="no model folder at"):
        pbos.complete(given, new[:9], model=tmp_path / "nowhere")


def test_a_model_is_trained_if_none_is_given(given, new, model):
    expected = pbos.complete(given, new, model=model)
    for source in (given, (given.words, given.vectors), dict(zip(given.words, given.vectors, strict=True))):
        assert np.array_equal(pbos.complete(source, new, lam=0.01, threads=1).vectors, expected.vectors)
    some = pbos.complete(given, new, limit=500, preset="bos", epochs=2)
    other = pbos.train(given, limit=500, preset="bos", epochs=2)
    assert np.array_equal(some.vectors, pbos.complete(given, new, model=other).vectors)
    assert some.words[:1500] == given.words


def test_new_vectors_are_like_the_true_ones(small_vectors, given, new):
    """Held-out words of a table of unit vectors get unit vectors, which are nearer than those of other words."""
    units = small_vectors.vectors / np.linalg.norm(small_vectors.vectors, axis=1, keepdims=True)
    table = pbos.complete((given.words, units[:1500]), new)
    np.testing.assert_allclose(np.linalg.norm(table.vectors, axis=1), 1, rtol=1e-5)
    true = units[1500:]
    assert np.sum(table[new] * true, axis=1).mean() > 0.3 + np.sum(np.roll(true, 1, axis=0) * true, axis=1).mean()


def test_another_form_of_a_given_word_has_its_vector(given):
    words, form = [*given.words, "café"], unicodedata.normalize("NFD", "café")
    matrix = np.vstack([given.vectors, np.arange(given.dims, dtype=np.float32)])
    table = pbos.complete((words, matrix), [form], lam=0.01)
    assert table.words == [*words, form]
    assert np.array_equal(table[form], matrix[-1])


def test_words_below_a_confidence_are_left_out(given, new, model):
    confidences = {word: model.confidence(word) for word in new}
    least = float(np.median(list(confidences.values()))) + 1e-4  # between two words
    table = pbos.complete(given, new, model=model, min_confidence=least)
    assert table.words == [*given.words, *(word for word in new if confidences[word] >= least)]
    assert 1600 < len(table) < 1900
    assert np.array_equal(table.vectors, pbos.complete(given, new, model=model)[table.words])
    assert len(pbos.complete(given, [], model=model, min_confidence=least)) == 1500


def test_a_model_without_confidence_cannot_leave_words_out(given, new):
    with pytest.raises(InputError, match="this model has no confidence; train one with confidence=True"):
        pbos.complete(given, new, limit=200, min_confidence=0.5)


def test_a_model_of_other_vectors(given, new, model):
    other = pbos.WordVectors(given.words, np.random.default_rng(0).normal(size=given.vectors.shape))
    with pytest.warns(PbosWarning, match="the mean cosine of the model's vectors and the given ones is"):
        pbos.complete(other, new, model=model)
    with pytest.raises(InputError, match="the vectors have 3 dimensions, but the model has 32"):
        pbos.complete((["a"], np.ones((1, 3))), new, model=model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_confidence": 1.5}, "min_confidence must be a number from 0 to 1, got 1.5"),
        ({"min_confidence": "high"}, "min_confidence must be a number from 0 to 1, got 'high'"),
        ({"limit": 5}, "limit is for training; leave it out"),
        ({"counts": {"a": 1}}, "counts is for training"),
        ({"preset": "bos"}, "preset is for training"),
        ({"words": "word"}, "got one string: 'word'"),
        ({"words": ["a", None]}, "word 1 is missing"),
        ({"words": ["a", ""]}, "word 1 is an empty string"),
    ],
)
def test_bad_arguments(given, model, options, message):
    with pytest.raises(InputError, match=message):
        pbos.complete(**{"vectors": given, "words": ["a"], "model": model, **options})
