"""Contexts at hand: embed, confidence and explain with sentences, and copies of models that can use them."""

import copy
import itertools
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos.errors import InputError
from pbos.words.text import unpack_strings

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def contexts(small_vectors, sentences):
    """Up to five sentences for each of 40 words that are not training words."""
    found = {word: [line for line in sentences if word in line.split()][:5] for word in small_vectors.words[1500:]}
    return dict(itertools.islice(((word, lines) for word, lines in found.items() if lines), 40))


def features_by_hand(model, word, sentences):
    """The mean vectors of near, next and previous words, and how often the word is there."""
    window, sums, weights, n_times = 5, np.zeros((3, model.dims)), np.zeros(3), 0
    kept = dict(zip(unpack_strings(*model._contexts.words), model._contexts.kept.tolist(), strict=True))
    for sentence in sentences:
        words = sentence.split()
        for at in (at for at, other in enumerate(words) if other == word):
            n_times += 1
            for place, other in enumerate(words):
                between = words[min(at, place) + 1 : max(at, place)]
                distance = 1 + sum(kept.get(one, 1) for one in between)
                near = kept.get(other, 1) * (window + 1 - distance) * (place != at) * (distance <= window)
                shares = np.array([near, place == at + 1, place == at - 1], float)
                sums += shares[:, None] * model[other]
                weights += shares
    return (sums / np.maximum(weights, 1e-9)[:, None]).ravel(), n_times


@pytest.fixture(scope="module")
def by_hand(contextual, contexts):
    """What is expected of these words, all at once."""
    assert contextual._contexts.kept.size > 50  # frequent words count less
    features, n_times = zip(*(features_by_hand(contextual, *item) for item in contexts.items()), strict=True)
    words = [*contexts]
    trust = contextual.confidence(words)
    return contextual._contexts.mix(contextual[words], trust, np.float32(features), np.array(n_times))


def test_contexts_count_for_training_words_that_lost_their_vectors(contextual, sentences):
    small = contextual.compress(min_vector_words=10)
    trust = small.confidence(small.words)
    told = {word: sentences[at] for at in range(2000) for word in sentences[at].split() if word in small}
    words = sorted(told)
    trust, mixed = small.confidence(words), small.embed(words, contexts=told)
    lost = trust < 0.8
    assert lost.any() and not lost.all()
    assert ((mixed != small.embed(words)).any(axis=1) == lost).all()
    assert contextual.embed(words, contexts=told).tobytes() == contextual.embed(words).tobytes()


def test_one_word_and_many_by_hand(contextual, contexts, by_hand):
    words = [*contexts]
    found = contextual.embed(words, contexts=contexts)
    np.testing.assert_allclose(found, by_hand.vectors, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(contextual.confidence(words, contexts=contexts), by_hand.confidence, atol=1e-4)
    for word, vector, confidence in zip(words[:5], *by_hand[:2], strict=False):
        for passed in (contexts[word], {word: contexts[word]}, iter(contexts[word]), tuple(contexts[word])):
            np.testing.assert_allclose(contextual.embed(word, contexts=passed), vector, rtol=1e-3, atol=1e-4)
        assert contextual.confidence(word, contexts=contexts[word]) == pytest.approx(confidence, abs=1e-4)
        assert contextual.embed(word, contexts=contexts[word][0]).shape == (contextual.dims,)


def test_sentences_bring_words_nearer_to_their_true_vectors(contextual, contexts, small_vectors):
    def mean_cosine(vectors):
        true = small_vectors[[*contexts]]
        products = np.sum(vectors * true, axis=1)
        return np.mean(products / np.linalg.norm(vectors, axis=1) / np.linalg.norm(true, axis=1))

    words = [*contexts]
    alone, both = contextual[words], contextual.embed(words, contexts=contexts)
    assert mean_cosine(both) > mean_cosine(alone)
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), np.linalg.norm(alone, axis=1), rtol=1e-4)


def test_words_without_contexts_and_training_words_stay_as_they_are(contextual, contexts):
    word, known = next(iter(contexts)), contextual.words[5]
    many = [word, known, "ksenoz", known.upper(), word, "ЖЖ"]
    given = {word: contexts[word], known: f"{word} {known}", "ЖЖ": "ЖЖ"}
    expected, found = contextual.embed(many), contextual.embed(many, contexts=given)
    assert found[[1, 2, 3, 5]].tobytes() == expected[[1, 2, 3, 5]].tobytes()
    assert found[0].tobytes() == found[4].tobytes() != expected[0].tobytes()
    confidence = contextual.confidence(many, contexts=given)
    assert confidence[[1, 2, 3, 5]].tobytes() == contextual.confidence(many)[[1, 2, 3, 5]].tobytes()
    assert confidence[1] == confidence[3] == 1
    assert contextual.embed(known, contexts=f"{word} {known}").tobytes() == expected[1].tobytes()
    assert np.array_equal(contextual.embed(many, contexts={}), expected)
    assert contextual.embed([], contexts={}).shape == (0, contextual.dims)
    assert contextual.confidence([], contexts={}).shape == (0,)


def test_other_arguments_of_embed(contextual, contexts):
    words, known = [*contexts][:3], contextual.words[7]
    given = {word: contexts[word] for word in words}
    expected = contextual.embed(words, contexts=given)
    out = np.full((3, contextual.dims), 7, np.float32)
    assert np.shares_memory(contextual.embed(words, contexts=given, out=out), out)
    assert out.tobytes() == expected.tobytes()
    for threads in (1, 2, 5):
        assert contextual.embed(words, contexts=given, threads=threads).tobytes() == expected.tobytes()
        confidence = contextual.confidence(words, contexts=given, threads=threads)
        assert confidence.tobytes() == contextual.confidence(words, contexts=given).tobytes()
    with_none = contextual.embed([None, *words, ""], contexts=given, missing="zeros")
    np.testing.assert_allclose(with_none[1:4], expected, rtol=1e-4, atol=1e-5)
    assert not with_none[[0, 4]].any()
    assert contextual.confidence([None, *words, ""], contexts=given, missing="zeros")[[0, 4]].tolist() == [0, 0]
    for nothing in (None, "", float("nan")):
        assert not contextual.embed(nothing, contexts="a b", missing="zeros").any()
        assert contextual.confidence(nothing, contexts="a b", missing="zeros") == 0
    exact = contextual.embed([*words, known], contexts={**given, known: known}, exact=True)
    np.testing.assert_allclose(exact[:3], expected, rtol=1e-4, atol=1e-5)
    assert np.array_equal(exact[3], contextual.embed(known, exact=True))
    assert contextual.embed(iter(words), contexts=given).tobytes() == expected.tobytes()
    assert contextual.embed(np.array(words), contexts=given).tobytes() == expected.tobytes()


def test_a_word_in_another_case(contextual, contexts):
    word, sentences = next(iter(contexts.items()))
    expected = contextual.embed(word, contexts=sentences)
    loud = [sentence.upper() for sentence in sentences]
    np.testing.assert_allclose(contextual.embed(word, contexts=loud), expected, rtol=1e-4, atol=1e-5)
    found = contextual.embed([word.upper()], contexts={word.upper(): loud})
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


def test_a_word_without_known_subwords_gets_the_vector_of_its_contexts(contextual):
    sentence = f"{contextual.words[3]} ЖЖ {contextual.words[4]}"
    assert not contextual["ЖЖ"].any()
    features, _ = features_by_hand(contextual, "жж", [sentence.lower()])
    found = contextual.embed("ЖЖ", contexts=sentence)
    np.testing.assert_allclose(found, features @ contextual._contexts.matrix.astype(np.float64), rtol=1e-3, atol=1e-4)
    assert 0 < contextual.confidence("ЖЖ", contexts=sentence) < 1
    assert contextual.explain("ЖЖ", contexts=sentence).context_share == 1


@pytest.mark.parametrize(
    ("words", "contexts", "message"),
    [
        (["a", "b"], ["a c"], "contexts of many words must be a mapping from words to sentences"),
        (["a", "b"], "a c", "contexts of many words must be a mapping from words to sentences"),
        (["a"], 5, "contexts of many words must be a mapping from words to sentences"),
        (["a", "b"], {"a": "a c", "c": "c"}, "there are contexts of 'c', which is not one of the words"),
        (["a"], {5: "a c"}, "there are contexts of 5, which is not one of the words"),
        ("a", {"b": "b"}, "there are contexts of 'b', which is not one of the words"),
        ("a", [], "there are no contexts of 'a'; pass at least one sentence, or leave contexts out"),
        ("a", "b c", "'a' does not occur in its context 'b c'; leave such sentences out"),
        ("a", 5, "contexts of 'a': expected sentences (a list or column of str), got int"),
        ("a", ["a b", None], "contexts of 'a': sentence 1 is missing (None); drop such sentences"),
        (["a"], {"a": None}, "contexts of 'a': expected sentences (a list or column of str), got NoneType"),
        ("a b", "a b c", "'a b' is not a single word of a text, so it cannot have contexts"),
    ],
)
def test_bad_contexts(contextual, confident, words, contexts, message):
    for method in (contextual.embed, contextual.confidence, contextual.explain):
        with pytest.raises(InputError) as error:
            method(words, contexts=contexts)
        assert str(error.value) == message
    for method in (confident.embed, confident.confidence, confident.explain):
        with pytest.raises(
            InputError, match=r"^this model cannot use contexts; train one with a text: train\(vectors, t"
        ):
            method(words, contexts=contexts)


def test_words_that_are_missing_are_the_first_error(contextual):
    for method in (contextual.embed, contextual.confidence):
        with pytest.raises(InputError, match=r'word 1 is .*missing="zeros"$'):
            method(["a", None], contexts={"a": "a b"})


def test_a_model_without_confidence_has_no_contexts(small_vectors):
    few = pbos.train((small_vectors.words[:300], small_vectors.vectors[:300]))
    assert not few.has_contexts and not few.has_confidence
    with pytest.raises(InputError, match=r"^this model cannot use contexts"):
        few.embed("a", contexts="a b")


def test_contexts_of_many_words_take_time_in_proportion(contextual, contexts):
    words = [f"{word}{number}" for number in range(300) for word in [*contexts][:20]]
    found = contextual.embed(words, contexts={word: f"{word} b" for word in words})
    assert found.shape == (6000, contextual.dims)


@given(st.text(), st.text(), st.text(), st.sampled_from([" ", "\n", ", ", "。", ""]))
def test_any_word_in_any_sentence_has_numbers_or_one_error(contextual, word, before, after, between):
    try:
        vector = contextual.embed(word, contexts=f"{before}{between}{word}{between}{after}")
    except InputError as error:
        assert re.search("is an empty string|lone surrogate|is not a single word of a text|does not occur", str(error))
        return
    assert np.isfinite(vector).all()
    explained = contextual.explain(word, contexts=f"{before}{between}{word}{between}{after}")
    assert 0 <= explained.context_share <= 1 and 0 <= explained.confidence <= 1


# -- explain -----------------------------------------------------------------------------------------------------------


def test_an_explanation_says_what_comes_from_contexts(contextual, contexts, by_hand):
    words = [*contexts][:5]
    asked = {word: contexts[word] for word in words}
    for explain_contexts in (asked, {word: iter(some) for word, some in asked.items()}):
        for at, found in enumerate(contextual.explain(iter(words), contexts=explain_contexts)):
            assert found.word == words[at]
            assert found.context_share == pytest.approx(float(by_hand.shares[at]), abs=1e-3)
            assert found.confidence == pytest.approx(float(by_hand.confidence[at]), abs=1e-3)
            assert sum(share for _, share in found.context_words) == pytest.approx(1, abs=1e-3)
            around = {other for line in contexts[words[at]] for other in line.split()} - {words[at]}
            assert {word for word, _ in found.context_words} <= around
            data = found.to_dict()
            assert data["context_share"] == found.context_share
            assert data["context_words"][0] == {"word": found.context_words[0][0], "share": found.context_words[0][1]}


def test_one_explanation_with_contexts(contextual, contexts, by_hand):
    word = next(iter(contexts))
    for passed in (contexts[word], {word: contexts[word]}, iter(contexts[word])):
        found = contextual.explain(word, contexts=passed, neighbors=4)
        assert found.context_share == pytest.approx(float(by_hand.shares[0]), abs=1e-3)
    units = contextual[contextual.words]
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    cosines = units @ by_hand.vectors[0] / np.linalg.norm(by_hand.vectors[0])
    best = np.argsort(-cosines)[:4]
    assert [other for other, _ in found.neighbors] == [contextual.words[row] for row in best]
    assert [cosine for _, cosine in found.neighbors] == pytest.approx(cosines[best].tolist(), abs=1e-3)
    text = str(found)
    assert re.search(r"spelling and contexts\n +spelling +0\.\d{3} .*\n +contexts +0\.\d{3} ", text)
    assert f"  context words\n    {found.context_words[0][0]}" in text
    assert "<caption>context words</caption>" in found._repr_html_()


def test_an_explanation_of_a_training_word_or_a_word_alone(contextual):
    known = contextual.words[3]
    found = contextual.explain(known.upper(), contexts=f"{known} {contextual.words[4]}", neighbors=3)
    assert (found.context_share, found.confidence, found.known) == (0, 1, True)
    assert known not in [word for word, _ in found.neighbors]
    assert [word for word, _ in found.neighbors] == [word for word, _ in contextual.neighbors(known, 3)]
    alone = contextual.explain("ksenoz", contexts="ksenoz")
    assert (alone.context_share, alone.context_words) == (0, [])
    assert alone.confidence == contextual.confidence("ksenoz")
    assert "context words" in str(alone)
    without = contextual.explain("ksenoz")
    assert (without.context_share, without.context_words) == (None, [])
    assert "contexts" not in str(without) and "context_share" not in without.to_dict()
    some = contextual.explain(["ksenoz", "low"], contexts={"low": "low high"})
    assert [one.context_share is None for one in some] == [True, False]


# -- copies ------------------------------------------------------------------------------------------------------------


def test_copies_use_contexts_as_the_model_does(contextual, contexts, small_vectors, tmp_path):
    words = [*contexts]
    contextual.save(tmp_path / "m")
    loaded = pbos.load(tmp_path / "m")
    loaded.save(tmp_path / "again")
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == (
        tmp_path / "again" / "model.safetensors"
    ).read_bytes()
    expected, confidence = (method(words, contexts=contexts) for method in (contextual.embed, contextual.confidence))
    copies = {
        "loaded": loaded,
        "pickled": pickle.loads(pickle.dumps(contextual)),
        "pickled after": pickle.loads(pickle.dumps(loaded)),
        "deep": copy.deepcopy(loaded),
        "shallow": copy.copy(contextual),
        "targets": contextual.with_targets((small_vectors.words[:1400], small_vectors.vectors[:1400])),
    }
    for name, clone in copies.items():
        assert clone.has_contexts, name
        assert clone.embed(words, contexts=contexts).tobytes() == expected.tobytes(), name
        assert clone.confidence(words, contexts=contexts).tobytes() == confidence.tobytes(), name
    assert pbos.load(tmp_path / "m").config()["contexts"] is True
    earlier = pbos.load(GOLDEN / "model-v1")
    assert not earlier.has_contexts and "contexts" not in earlier.config()


def test_the_words_of_a_table_of_targets_count_as_known(contextual, contexts):
    word = next(iter(contexts))
    table = contextual.with_targets({word: contextual["ksenoz"]})
    assert np.array_equal(table.embed(word, contexts=contexts[word]), contextual[word])
    assert table.confidence(word, contexts=contexts[word]) == 1


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"dtype": "float16"}, 0.9999),
        ({"dtype": "int8"}, 0.99),
        ({"dims": 32}, 0.999),  # all of them, turned
        ({"dims": 28}, 0.95),
        ({"min_vector_words": 2}, 0.98),
        ({"min_vector_words": 2, "dims": 28, "dtype": "int8"}, 0.93),
    ],
)
def test_compressed_models_use_contexts_alike(contextual, contexts, options, least, tmp_path):
    """The vectors of words with contexts are at angles to those of training words as they were."""
    words = [*contexts]
    small = contextual.compress(**options)
    assert small.has_contexts
    small.save(tmp_path / "m")
    small = pbos.load(tmp_path / "m")

    def angles(model):
        known, mixed = model[model.words[:200]], model.embed(words, contexts=contexts)
        known, mixed = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (known, mixed))
        return mixed @ known.T

    assert np.corrcoef(angles(small).ravel(), angles(contextual).ravel())[0, 1] > least
    difference = small.confidence(words, contexts=contexts) - contextual.confidence(words, contexts=contexts)
    assert np.abs(difference).mean() < 0.05
