"""KVQ-FH against a version with loops and dictionaries, the nearest spelling against the textbook, fastText."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pbos import InputError, ModelError, WordVectors
from pbos.evaluation.baselines import FastText, NearestSpelling, Targets
from pbos.evaluation.kvq import KVQ, Attention, Settings, find_segments, frequent_ngrams, hash_ngrams, table_rows

WORDS = ["high", "higher", "highest", "low", "lower", "lowest", "banana", "a", "naïveté", "字典", "🙂🙂🙂"]
SMALL = Settings(rows=50)


def targets():
    return np.random.default_rng(0).normal(size=(len(WORDS), 8)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    return KVQ.train(WORDS, targets(), epochs=3, batch=4, lr=0.01, settings=SMALL)


# The definitions, slowly ----------------------------------------------------------------------------------------------


def ngrams(word, min_len=3, max_len=30):
    marked = f"<{word}>"
    return [
        marked[start : start + length]
        for length in range(min_len, max_len + 1)
        for start in range(len(marked) - length + 1)
    ]


def slow_hash(text):
    state = 0xCBF29CE484222325
    for character in text:
        state = (state ^ ord(character)) * 0x100000001B3 % 2**64
    return state


def slow_rows(text, rows):
    chosen, state = [], slow_hash(text)
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        chosen.append((mixed ^ mixed >> 31) % rows)
    return chosen


def slow_known(words, frequent):
    """Python's sort is stable, and a Counter keeps the order of first appearance."""
    longest = max(map(len, words)) + 2
    by_length = [ngram for n in range(3, longest + 1) for word in words for ngram in ngrams(word, n, n)]
    counts = Counter(by_length)
    return set(sorted(counts, key=lambda ngram: -counts[ngram])[:frequent])


def slow_vector(word, tables, known, rows, per_word=200):
    keys, values, queries = tables.astype(np.float64).reshape(3, rows, -1)
    dims = keys.shape[1]
    found = [slow_rows(ngram, rows) for ngram in ngrams(word) if ngram in known][:per_word]
    if not found:
        return np.zeros(dims)
    query = sum(queries[row] for _, _, row in found)
    vector = np.zeros(dims)
    for dim in range(dims):
        logits = [query[dim] * keys[key, dim] * np.sqrt(dims) for key, _, _ in found]
        powers = [np.exp(logit - max(logits)) for logit in logits]
        vector[dim] = sum(p * values[value, dim] for p, (_, value, _) in zip(powers, found, strict=True)) / sum(powers)
    return vector


# KVQ-FH ---------------------------------------------------------------------------------------------------------------


def test_hashes_never_change():
    """The second is FNV-1a of the published test vector `foobar`; the rows are SplitMix64 from there."""
    hashes, _ = hash_ngrams(["foobar"], 6, 6)
    assert [hex(value) for value in hashes] == ["0x325b9bf8b3d0ec3c", "0x85944171f73967e8", "0x22cddc7619b9a156"]
    assert table_rows(hashes, 40_000).tolist() == [
        [1795, 38415, 11509],
        [68627, 49059, 70703],
        [107956, 118552, 109079],
    ]


def test_hashes_match_the_slow_version():
    hashes, owners = hash_ngrams(WORDS, 3, 30)
    expected = Counter((i, slow_hash(ngram)) for i, word in enumerate(WORDS) for ngram in ngrams(word))
    assert Counter(zip(owners.tolist(), hashes.tolist(), strict=True)) == expected


@pytest.mark.parametrize("frequent", [500_000, 20])
def test_vectors_match_the_slow_version(frequent):
    chosen = Settings(rows=50, frequent=frequent)
    model = KVQ.train(WORDS, targets(), epochs=5, batch=4, lr=0.1, settings=chosen)
    known = slow_known(WORDS, frequent)
    words = [*WORDS, "lowhigh", "bananananana", "zzz"]
    expected = [slow_vector(word, model.tables.numpy(), known, chosen.rows) for word in words]
    np.testing.assert_allclose(model.embed(words), expected, atol=1e-5)


def test_the_gradient_is_that_of_the_forward_pass():
    random = torch.Generator().manual_seed(0)
    inputs = [torch.randn(7, 3, generator=random, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    owners, starts = torch.tensor([0, 0, 0, 0, 2, 3, 3]), torch.tensor([0, 4, 4, 5, 7])
    assert torch.autograd.gradcheck(Attention.apply, (*inputs, owners, starts))


def test_training_comes_near_the_targets():
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
    """Of equally frequent n-grams the shorter and then the earlier ones stay."""
    words = ["high", "higher", "low"]
    for frequent in (1, 3, 6, 9):
        known = frequent_ngrams(words, Settings(frequent=frequent))
        assert known.tolist() == sorted(slow_hash(ngram) for ngram in slow_known(words, frequent))


def test_a_word_has_at_most_200_ngrams():
    words = ["abcdefghijklmnopqrstuvwxyz", "low"]
    chosen = Settings()
    segments = find_segments(words, frequent_ngrams(words, chosen), chosen)
    assert np.diff(segments.starts).tolist() == [200, 6]
    offsets = np.arange(3) * chosen.rows
    assert segments.rows[:, :200].T.tolist() == [
        (slow_rows(ngram, chosen.rows) + offsets).tolist() for ngram in ngrams(words[0])[:200]
    ]


def test_a_word_without_known_ngrams_gets_zeros(model):
    vectors = model.embed(["zzz", "high"])
    assert not vectors[0].any()
    assert vectors[1].any()
    assert not model.embed(["zzz"]).any()
    assert model.embed([]).shape == (0, 8)


def test_sizes(model):
    assert (model.dims, model.parameters, len(model.losses)) == (8, 3 * 50 * 8, 3)
    assert model.embed(["high"]).dtype == np.float32


def test_a_saved_model_is_the_same(model, tmp_path):
    model.save(tmp_path / "kvq.safetensors")
    again = KVQ.load(tmp_path / "kvq.safetensors")
    assert torch.equal(model.tables, again.tables)
    assert (again.settings, again.losses) == (model.settings, model.losses)
    assert np.array_equal(model.embed(["higher", "lowhigh"]), again.embed(["higher", "lowhigh"]))


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "kvq.safetensors").write_bytes(b"no model")
    with pytest.raises(ModelError, match="no KVQ-FH model"):
        KVQ.load(tmp_path / "kvq.safetensors")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"matrix": np.zeros((2, 3))}, "a row for each of 11 words, got shape"),
        ({"matrix": np.full((11, 3), np.nan)}, "NaN"),
        ({"matrix": np.zeros((11, 3))}, "nothing to learn"),
        ({"matrix": np.ones((11, 3)), "epochs": 0}, "epochs >= 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        KVQ.train(WORDS, **arguments)


def test_kvq_needs_no_numba():
    """It has to run on GPU machines that have little more than PyTorch."""
    code = "import sys; sys.modules.update(numba=None, typer=None, rich=None, scipy=None)\n"
    code += "from pbos.evaluation.kvq import KVQ, Settings\n"
    code += "KVQ.train(['low'], [[1.0, 2.0]], epochs=1, settings=Settings(rows=9)).embed(['lower'])"
    subprocess.run([sys.executable, "-c", code], check=True)


# The others -----------------------------------------------------------------------------------------------------------


def levenshtein(first, second):
    line = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        previous, line = line, [i]
        for j, b in enumerate(second, 1):
            line.append(min(previous[j - 1] + (a != b), previous[j] + 1, line[j - 1] + 1))
    return line[-1]


SPELLINGS = st.text("abc字", min_size=1, max_size=9)


@settings(deadline=None)
@given(st.lists(SPELLINGS, min_size=1, max_size=12, unique=True), st.lists(SPELLINGS, max_size=6))
def test_the_nearest_spelling_is_the_textbook_one(vocabulary, queries):
    """Of equally near words the earlier, which is the more frequent; min() takes the first of equals too."""
    vectors = WordVectors(vocabulary, np.arange(len(vocabulary), dtype=np.float32)[:, None])
    expected = [min(range(len(vocabulary)), key=lambda row: levenshtein(query, vocabulary[row])) for query in queries]
    assert NearestSpelling(vectors).embed(queries).ravel().tolist() == expected


def test_the_nearest_spelling_with_threads():
    random = np.random.default_rng(0)
    words = list({"".join(random.choice(list("abcdef"), 8)) for _ in range(400)})
    vectors = WordVectors(words[:150], np.arange(150, dtype=np.float32)[:, None])
    one, two = (NearestSpelling(vectors).embed(words, threads=threads) for threads in (1, 2))
    assert np.array_equal(one, two)
    assert one[:150].ravel().tolist() == list(range(150))


def test_targets_know_their_own_words_only():
    vectors = WordVectors(["high", "low"], np.eye(2))
    assert Targets(vectors).embed(["low", "High", "low"]).tolist() == [[0, 1], [0, 0], [0, 1]]
    assert Targets(vectors).embed([]).shape == (0, 2)
    assert Targets(vectors).dims == NearestSpelling(vectors).dims == 2


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
