"""Word vectors from co-occurrences, against a dense singular value decomposition."""

import numpy as np
import pytest
import scipy.sparse as sp
from texts import count, generated_text

from pbos.corpus import vectors
from pbos.errors import InputError

pytestmark = pytest.mark.core


def vectors_by_hand(found, dims, min_count, min_context_count):
    """PPMI with context counts to the power of .75, rows weighted by n / (n + 100), and a dense SVD."""
    n = len(found)
    counted = sp.csr_matrix((found.data, found.indices, found.indptr), shape=(n, 3 * n)).toarray().astype(float)
    words, contexts = found.counts >= min_count, found.counts >= min_context_count
    parts = []
    for share, pairs in zip((1, 0.5, 0.5), np.split(counted, 3, axis=1), strict=True):
        columns = pairs[:, contexts].sum(axis=0) ** 0.75
        rows = pairs[words][:, contexts]
        with np.errstate(divide="ignore", invalid="ignore"):
            information = np.log(rows / rows.sum(axis=1, keepdims=True) / (columns / columns.sum()))
        parts.append(share * np.nan_to_num(np.maximum(information, 0)))
    roots = np.sqrt(found.counts[words] / (found.counts[words] + 100))[:, None]
    left, _, _ = np.linalg.svd(roots * np.hstack(parts), full_matrices=False)
    rows = left[:, :dims] / roots
    return np.array(found.words)[words], rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("larger")
    return count(generated_text(20_000, n_words=600, kinds=12).split("\n"), folder)


@pytest.mark.parametrize("steps", [None, 6])
@pytest.mark.parametrize("memory", [4 << 30, 1])
def test_vectors_are_those_of_a_dense_svd(larger, monkeypatch, steps, memory):
    if steps:  # a Krylov space smaller than that of all contexts
        monkeypatch.setattr(vectors, "n_steps", lambda dims: steps)
    monkeypatch.setattr("pbos.corpus.cooccurrences.ENTRIES", 3000)
    monkeypatch.setattr(vectors, "MIN_CONTEXT_COUNT", 20)
    options = {"max_words": 1000, "memory": memory}
    words, found, counts = vectors.word_vectors(larger, 12, min_count=5, **options)
    names, expected = vectors_by_hand(larger, 12, 5, 20)
    order = [names.tolist().index(word) for word in words]
    assert (found @ found.T) == pytest.approx(expected[order] @ expected[order].T, abs=2e-3)
    assert counts.tolist() == sorted(counts.tolist(), reverse=True)
    assert dict(zip(words, counts.tolist(), strict=True)) == {
        word: n for word, n in zip(larger.words, larger.counts.tolist(), strict=True) if n >= 5
    }


def test_vectors_do_not_depend_on_threads_or_memory(larger, monkeypatch):
    monkeypatch.setattr(vectors, "n_steps", lambda dims: 6)
    monkeypatch.setattr("pbos.corpus.cooccurrences.ENTRIES", 3000)
    options = {"min_count": 2, "max_words": 1000}
    results = [
        vectors.word_vectors(larger, 10, threads=threads, memory=memory, **options)
        for threads, memory in ((1, 4 << 30), (2, 4 << 30), (3, 1))
    ]
    for words, found, _ in results[1:]:
        assert words == results[0][0]
        assert found.tobytes() == results[0][1].tobytes()


def test_the_most_frequent_words_get_vectors(larger, monkeypatch):
    monkeypatch.setattr(vectors, "MAX_CONTEXTS", 40)
    words, _, counts = vectors.word_vectors(larger, 12, min_count=2, max_words=50)
    assert len(words) == 50
    assert counts.min() >= np.sort(larger.counts)[-50]
    with pytest.raises(InputError, match="50 dimensions need as many words that occur 5 times, but there are only 40"):
        vectors.word_vectors(larger, 50, min_count=2, max_words=50)


def test_words_without_a_part_in_the_dimensions_get_no_vector(tmp_path):
    """Pairs of words that occur only with each other: their directions are not among the first."""
    pairs = "".join(f"q{at:03}a q{at:03}b\n" * 6 for at in range(200))
    found = count((generated_text(3000, n_words=80, kinds=4) + pairs).split("\n"), tmp_path)
    options = {"min_count": 2, "max_words": 1000}
    words, _, _ = vectors.word_vectors(found, 4, **options)
    assert len([word for word in words if word.startswith("w")]) >= 60
    assert not any(word.startswith("q") for word in words)


def test_lines_of_one_word(tmp_path):
    found = count(["one", "two", "three"] * 10, tmp_path)
    with pytest.raises(InputError, match="no two words of the text are next to each other"):
        vectors.word_vectors(found, 2, min_count=2, max_words=9)
