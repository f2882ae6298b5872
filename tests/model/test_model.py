"""The model: vectors, given vectors, missing words, capitals, confidence."""

import functools
import pickle
import unicodedata

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos import InputError
from pbos.model import Model
from pbos.words.vectors import SubwordVectors

UNKNOWN = "ЖЖЖ"  # no subword of the models here


@pytest.mark.parametrize("word", ["abcabc", "hgfedcba", "a", "hhhhhhhhhh", "abXcd", "bada", "ab-cd", "-"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_vector_is_the_weighted_sum_of_subword_vectors(model, word, dtype, monkeypatch):
    stored = model.compress(dtype=dtype)
    exact = oracle.vector(stored, word)
    assert np.linalg.norm(stored[word] - exact) <= 1e-3 * np.linalg.norm(exact)  # negligible vectors are left out
    assert stored[word].dtype == np.float32
    monkeypatch.setattr("pbos.words.vectors.NEGLIGIBLE", 0.0)
    assert pickle.loads(pickle.dumps(stored))[word] == pytest.approx(exact, abs=1e-5)


def test_only_negligible_vectors_are_left_out_of_a_sum(small):
    """Vectors 1e-6 times as long as the others are negligible, those 1e-3 times as long are not."""
    for factor, matters in ((1e-6, False), (1e-3, True)):
        values = small.subword_vectors.values.copy()
        values[::2] *= factor
        model = Model(small.index, small.spelling, SubwordVectors.of(values), small._packed_words)
        values = values.copy()
        values[::2] = 0
        without = Model(small.index, small.spelling, SubwordVectors.of(values), small._packed_words)
        assert np.array_equal(model["abcabc"], without["abcabc"]) is not matters


def test_repeated_words_get_the_same_vectors(small, vectors):
    words = [vectors.words[i % 7] for i in range(5000)]
    assert np.array_equal(small.embed(words), np.array([small[word] for word in words[:7]])[np.arange(5000) % 7])
    with pytest.raises(InputError, match="word 4999 is an empty string"):
        small.embed([*words[:-1], ""])


def test_batch_and_single_agree(model, vectors):
    words = [*vectors.words, "abcabcabc", UNKNOWN, "a"]
    batch = model.embed(words)
    assert batch.shape == (len(words), 24)
    for word, row in zip(words, batch, strict=True):
        assert np.array_equal(model[word], row)


def test_batches_longer_than_a_chunk_do_not_depend_on_threads(small, vectors):
    words = vectors.words * 50
    first = small.embed(words, threads=1)
    for threads in (2, 3, None):
        assert np.array_equal(small.embed(words, threads=threads), first)
    assert np.array_equal(first[: len(vectors)], first[-len(vectors) :])


def test_nothing_in_nothing_out(small):
    assert small.embed([]).shape == (0, 24)
    assert small.embed([], missing="zeros").shape == (0, 24)


@pytest.mark.parametrize("word", [None, float("nan"), ""])
def test_one_missing_word(small, word):
    with pytest.raises(InputError, match=r"^word 0 is (missing|an empty string)"):
        small.embed(word)
    vector = small.embed(word, missing="zeros")
    assert vector.shape == (24,)
    assert not vector.any()


def test_out(small):
    out = np.full((2, 24), np.nan, np.float32)
    assert small.embed(["abc", UNKNOWN], out=out) is out
    assert np.array_equal(out, small.embed(["abc", UNKNOWN]))
    wrong = [np.zeros((3, 24), np.float32), np.zeros((2, 24)), np.zeros((24, 2), np.float32).T, [0.0]]
    for bad in wrong:
        with pytest.raises(InputError, match=r"out must be a C-contiguous float32 array of shape \(2, 24\), got"):
            small.embed(["abc", "cab"], out=bad)
    out.flags.writeable = False
    with pytest.raises(InputError, match="out is read-only"):
        small.embed(["abc", "cab"], out=out)


def test_words_without_a_known_subword(model):
    """Zeros and nothing, never an error."""
    assert not model[UNKNOWN].any()
    assert model.coverage(UNKNOWN) == 0
    assert model.weights(UNKNOWN) == []
    assert model.similarity("abc", UNKNOWN) == 0
    assert model.similarity(UNKNOWN, ["abc", UNKNOWN]).tolist() == [0, 0]
    assert model.neighbors(UNKNOWN) == []
    assert [len(near) for near in model.neighbors([UNKNOWN, "abc"], 2)] == [0, 2]
    assert UNKNOWN not in dict(model.neighbors("abc", 3, among=["bca", "cab", UNKNOWN])[:2])
    assert model.explain(UNKNOWN).neighbors == []


def test_exact_gives_training_words_their_vectors(model, small, vectors):
    words = [vectors.words[3], "abcabcabc"]
    exact, composed = model.embed(words, exact=True), model.embed(words)
    assert np.array_equal(exact[0], vectors.vectors[3])
    assert not np.array_equal(composed[0], vectors.vectors[3])
    assert np.array_equal(exact[1], composed[1])
    with pytest.raises(InputError, match="keep_targets=True"):
        small.embed(words, exact=True)


def test_given_vectors_are_kept_unless_the_model_is_made_small(vectors):
    def has_them(model):
        return pickle.loads(pickle.dumps(model))._target_vectors is not None

    model = pbos.train(vectors, lam=0.1)
    assert has_them(model)
    assert not has_them(pbos.train(vectors, lam=0.1, keep_targets=False))
    assert not has_them(pbos.train(vectors, lam=0.1, max_vectors=50))
    assert has_them(pbos.train(vectors, lam=0.1, max_vectors=50, keep_targets=True))
    assert not has_them(model.compress(dtype="int8"))
    assert has_them(model.compress(dtype="int8", keep_targets=True))


def test_given_vectors_can_be_given_again(model, small, vectors):
    words = [*vectors.words, "abcabcabc", UNKNOWN]
    again = pbos.train(vectors, preset="pbos", epochs=10, keep_targets=True)
    other = small.with_targets(vectors)
    assert np.array_equal(other.embed(words, exact=True), again.embed(words, exact=True))
    assert np.array_equal(other.embed(words), small.embed(words))
    assert other.neighbors("abcab", 5, exact=True) == again.neighbors("abcab", 5, exact=True)
    with pytest.raises(InputError, match="with_targets"):
        small.embed("abc", exact=True)  # which stays as it was


def test_a_table_with_other_words_takes_the_place_of_the_training_words(small):
    table = {UNKNOWN: np.arange(24), "cafe\u0301": np.ones(24), "caf\xe9": np.zeros(24)}
    other = small.with_targets(table)
    assert other.words == [UNKNOWN, "caf\xe9"]  # normalized; the first counts
    assert UNKNOWN in other
    assert other.embed([UNKNOWN, "caf\xe9"], exact=True).tolist() == [list(range(24)), [1] * 24]
    assert [word for word, _ in other.neighbors(UNKNOWN, exact=True)] == ["caf\xe9"]
    with pytest.raises(InputError, match="the vectors have 3 dimensions, but the model has 24"):
        small.with_targets({"abc": [1, 2, 3]})


def test_training_words(model, vectors):
    assert model.words == list(model) == vectors.words
    assert len(model) == len(vectors)
    assert model.dims == model.vector_size == 24
    assert vectors.words[0] in model
    assert "abcabcabcabc" not in model
    assert 3 not in model


# One word and many ----------------------------------------------------------------------------------------------------

MANY = ["abcab", "hgfedcba", UNKNOWN, "ab-cd", "a"]
METHODS = {
    "embed": lambda m, w: m.embed(w).tolist(),
    "embed exact": lambda m, w: m.embed(w, exact=True).tolist(),
    "[]": lambda m, w: m[w].tolist(),
    "segment": lambda m, w: m.segment(w, 3),
    "sample": lambda m, w: m.sample(w, 2, seed=1),
    "weights": lambda m, w: m.weights(w),
    "entropy": lambda m, w: m.entropy(w),
    "coverage": lambda m, w: m.coverage(w),
    "lattice": lambda m, w: m.lattice(w).spans if isinstance(w, str) else [one.spans for one in m.lattice(w)],
    "explain": lambda m, w: m.explain(w).to_dict() if isinstance(w, str) else [one.to_dict() for one in m.explain(w)],
    "neighbors": lambda m, w: m.neighbors(w, 4),
    "similarity": lambda m, w: m.similarity(w, "abc"),
}


@pytest.mark.parametrize("method", METHODS)
def test_one_word_answers_like_a_list_of_one(model, method):
    ask = METHODS[method]
    for word in MANY:
        assert ask(model, word) == ask(model, [word])[0]
    if method not in ("sample", "similarity", "neighbors"):  # by position; BLAS may round many rows differently
        assert ask(model, MANY) == [ask(model, word) for word in MANY]
    assert len(ask(model, [])) == 0


# Missing words --------------------------------------------------------------------------------------------------------


def pandas_column(**options):
    return lambda words: pytest.importorskip("pandas").Series(words, **options)


@pytest.mark.parametrize(
    "column",
    [list, tuple, iter, lambda words: np.array(words, object), pandas_column(), pandas_column(dtype="string")],
    ids=["list", "tuple", "iterator", "NumPy", "pandas", "pandas string"],
)
@pytest.mark.parametrize("missing", [None, float("nan"), "pandas.NA", ""], ids=str)
def test_missing_words(small, column, missing):
    if missing == "pandas.NA":
        missing = pytest.importorskip("pandas").NA
    words = ["abc", missing, "cab", missing]
    with pytest.raises(InputError, match=r"^word 1 is (missing \(.+\)|an empty string); drop such words, or "):
        small.embed(column(words))
    found = small.embed(column(words), missing="zeros")
    assert not found[[1, 3]].any()
    assert np.array_equal(found[[0, 2]], small.embed(["abc", "cab"]))
    out = np.full((4, 24), np.nan, np.float32)
    assert small.embed(column(words), missing="zeros", out=out) is out
    assert np.array_equal(out, found)


def test_masked_words_are_missing(small):
    words = np.ma.array(["abc", "cab"], mask=[0, 1])
    for column in (words, list(words), words.astype(object)):
        with pytest.raises(InputError, match="word 1 is missing"):
            small.embed(column)
        assert small.embed(column, missing="zeros").any(axis=1).tolist() == [True, False]
    assert not small.embed(words[1], missing="zeros").any()


def test_masked_numbers_are_not_taken_for_vectors(small):
    vector = np.ma.array(small["abc"], mask=[1, *[0] * 23])
    for arguments in ({"words": vector}, {"words": vector[None]}, {"words": [vector]}, {"positive": ["abc", vector]}):
        with pytest.raises(InputError, match="a vector contains masked numbers, so it has no neighbors; fill them in"):
            small.neighbors(**arguments)
    assert small.neighbors(np.ma.array(small["abc"]), 3) == small.neighbors(small["abc"], 3)
    with pytest.raises(InputError, match="cosines needs numbers, but some are masked"):
        pbos.cosines(vector[None], small.embed(["abc"]))
    with pytest.raises(InputError, match=r"out must be .*, got MaskedArray"):
        small.embed(["abc"], out=np.ma.array(small.embed(["abc"]), mask=True))


def test_missing_words_far_into_a_long_list(small, vectors):
    words = [vectors.words[i % 200] for i in range(9000)]
    for missing, message in ((None, "word 8765 is missing"), ("", "word 8765 is an empty string")):
        words[8765] = missing
        with pytest.raises(InputError, match=message):
            small.embed(words)
        assert not small.embed(words, missing="zeros")[8765].any()


def test_missing_words_where_none_are_missing(model, vectors):
    words = [*vectors.words[:5], UNKNOWN]
    assert np.array_equal(model.embed(words, missing="zeros"), model.embed(words))
    assert np.array_equal(model.embed(words, missing="zeros", exact=True), model.embed(words, exact=True))
    assert not model.embed("", missing="zeros").any()
    assert model.embed("", missing="zeros").shape == (24,)


def test_an_error_after_missing_words_names_the_right_position(small):
    with pytest.raises(InputError, match=r"^word 2 .*lone surrogate"):
        small.embed(["abc", "", "a\ud800"], missing="zeros")


def test_given_vectors_beside_missing_words(model, vectors):
    found = model.embed([vectors.words[3], None], missing="zeros", exact=True)
    assert np.array_equal(found[0], vectors.vectors[3])
    assert not found[1].any()


@pytest.mark.parametrize("words", ["abc", ["abc"], ["abc", None], []])
@pytest.mark.parametrize("missing", ["null", "drop", None, ""])
def test_bad_values_of_missing(small, words, missing):
    with pytest.raises(InputError, match=f"^unknown missing {missing!r}; choose one of: error, zeros$"):
        small.embed(words, missing=missing)


@pytest.mark.parametrize(
    "method", ["embed", "segment", "sample", "weights", "entropy", "coverage", "lattice", "explain", "neighbors"]
)
def test_errors_name_the_position_of_a_bad_word(small, method):
    for bad, message in {
        None: "is missing",
        float("nan"): "is missing",
        "": "is an empty string",
        "a\ud800": "has a lone surrogate",
        3: "is not a str but int",
    }.items():
        with pytest.raises(InputError, match=f"^word 2 .*{message}"):
            getattr(small, method)(["abc", "cab", bad, "a"])


# Capitals -------------------------------------------------------------------------------------------------------------


def test_capitals_matter_unless_folded():
    words = ["House", "house", "STRASSE", "Straße"]
    cased = pbos.train((words, np.eye(4)), preset="pbos", epochs=300)
    for row, word in enumerate(words):
        assert cased[word] == pytest.approx(np.eye(4)[row], abs=0.1)
        assert word in cased
    assert "HOUSE" not in cased
    assert cased.segment("House")[0].pieces == ("House",)
    with pytest.warns(pbos.PbosWarning, match="2 words equal an earlier one after casefold normalization"):
        folded = pbos.train((words, np.eye(4)), preset="pbos", epochs=300, normalization="casefold")
    assert folded.words == ["house", "strasse"]
    for word in ("house", "House", "HOUSE", "hOuSe"):
        assert np.array_equal(folded[word], folded["house"])
        assert word in folded
        assert folded.segment(word) == folded.segment("house")
        assert folded.neighbors(word) == [("strasse", pytest.approx(folded.similarity("house", "STRAẞE")))]
    assert folded["HOUSE"] == pytest.approx(np.eye(4)[0], abs=0.1)
    assert folded["straße"] == pytest.approx(np.eye(4)[2], abs=0.1)


@given(st.text("aAeEéÉßẞǅİıſ\u0301", min_size=1, max_size=6))
def test_words_that_are_equal_after_folding_are_equal(word):
    model = folding_model()
    expected = unicodedata.normalize("NFC", word.casefold())
    assert np.array_equal(model[word], model[expected])
    assert model.lattice(word).word == expected
    assert "".join(model.segment(word)[0].pieces) == expected


@functools.cache
def folding_model():
    return pbos.train({"aé": [1.0], "éa": [2.0], "ass": [3.0]}, normalization="casefold", fallback="none", lam=0.1)


# -- confidence --------------------------------------------------------------------------------------------------------


def test_missing_words_have_a_confidence_of_0_if_asked(confident, small_vectors):
    word = small_vectors.words[1502]
    found = confident.confidence([None, word, float("nan"), "", small_vectors.words[0]], missing="zeros")
    assert found.tolist() == pytest.approx([0, confident.confidence(word), 0, 0, 1], abs=1e-5)
    assert confident.confidence(None, missing="zeros") == confident.confidence("", missing="zeros") == 0
    assert confident.confidence([]).shape == (0,)
    for missing in (None, ["a", None], ["a", ""]):
        with pytest.raises(InputError, match=r'missing="zeros"'):
            confident.confidence(missing)
    with pytest.raises(InputError, match="unknown missing 'null'"):
        confident.confidence("a", missing="null")


def test_a_model_says_whether_it_has_a_confidence(confident, tmp_path):
    few = pbos.train({"high": [1.0, 0.0], "higher": [1.0, 1.0]})  # too few words, though the setting is on
    assert few.info["confidence"]
    for model, has in ((confident, True), (few, False)):
        model.save(tmp_path / "model")
        loaded = pbos.load(tmp_path / "model")
        assert loaded.has_confidence is loaded.config()["confidence"] is has
        assert f"\n- confidence: {has}\n" in (tmp_path / "model" / "README.md").read_text("utf-8")
        assert loaded.compress(dtype="int8").has_confidence is has
