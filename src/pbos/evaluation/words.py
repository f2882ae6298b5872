"""Tasks on single words: similarity and held-out words. Each returns a Result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.evaluation.datasets import Pair
from pbos.evaluation.results import Embedder, Result, Score, bootstrap
from pbos.jobs.threads import blocks
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import NEAR_ZERO, FloatMatrix, cosines, held_out_rows, unit_rows
from pbos.words.text import as_words

Ints = npt.NDArray[np.int64]

BLOCK_BYTES = 1 << 26  # of cosines held at a time when ranking


class Targets:
    """A table of word vectors as an embedder; words without a vector get zeros.

    >>> Targets(WordVectors(["high", "low"], np.eye(2))).embed(["low", "higher"]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors
        self.dims = vectors.dims

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims)."""
        rows = np.array([self.vectors.row_of.get(word, -1) for word in as_words(words)], np.int64)
        out = np.zeros((rows.size, self.dims), np.float32)
        out[rows >= 0] = self.vectors.vectors[rows[rows >= 0]]
        return out


def similarity(
    model: Embedder,
    pairs: Iterable[Pair],
    name: str = "pairs",
    *,
    keep_cosines: bool = False,
    repeats: int = 1000,
    seed: int = 0,
) -> Result:
    """Compare cosines with human judgments: Spearman's rho x 100.

    As in the paper, words are lower-cased, and a pair with a word that has no vector (or one shorter than 1e-6) scores
    0. The second score leaves such pairs out.

    Args:
        model: Anything that embeds words.
        pairs: Word, word, score.
        name: The data set's name.
        keep_cosines: Keep the cosines and the human scores in the details, for `difference`.
        repeats: How many samples to draw for the intervals.
        seed: Determines the draws.
    """
    pairs = list(pairs)
    if len(pairs) < 2:
        raise InputError(f"{name}: similarity needs at least two pairs, got {len(pairs)}")
    human = np.array([score for _, _, score in pairs], np.float64)
    left, right = embed_pairs(model, pairs)
    both = (np.linalg.norm(left, axis=1) > NEAR_ZERO) & (np.linalg.norm(right, axis=1) > NEAR_ZERO)
    near = np.where(both, cosines(left, right), 0).astype(np.float64)

    def score(kind: str, kept: Any) -> dict[str, Score]:
        x, y = near[kept], human[kept]
        return bootstrap(lambda drawn: {kind: spearman(x[drawn], y[drawn])}, len(x), repeats=repeats, seed=seed)

    scores = score("spearman", slice(None)) | score("spearman, pairs with both vectors", both)
    protocol = "Spearman's rho x 100, words lower-cased, a pair with a missing or near-zero vector scores 0"
    details: dict[str, Any] = {"pairs": len(pairs), "missing_pairs": int((~both).sum()), "protocol": protocol}
    if keep_cosines:
        details |= {"cosines": near.round(5).tolist(), "human": human.tolist()}
    return Result("similarity", name, scores, details)


def difference(first: Result, second: Result, *, repeats: int = 1000, seed: int = 0) -> Score:
    """Return how far the first model's rho is above the second's on the same pairs, with its interval.

    Both models are scored on the same drawn pairs, so what the pairs have in common does not widen the interval. The
    results must come from `similarity(..., keep_cosines=True)`.
    """
    one, other, human = map(np.array, (first.details["cosines"], second.details["cosines"], first.details["human"]))

    def gap(drawn: Ints) -> dict[str, float]:
        return {"gap": spearman(one[drawn], human[drawn]) - spearman(other[drawn], human[drawn])}

    return bootstrap(gap, len(human), repeats=repeats, seed=seed)["gap"]


def embed_pairs(model: Embedder, pairs: Sequence[Pair]) -> tuple[FloatMatrix, FloatMatrix]:
    """Return the vectors of the pairs' first and second words; each distinct word is embedded once."""
    words = [word.lower() for pair in pairs for word in pair[:2]]
    row_of = {word: row for row, word in enumerate(dict.fromkeys(words))}
    vectors = model.embed(list(row_of))[[row_of[word] for word in words]]
    return vectors[::2], vectors[1::2]


def spearman(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    """Return Spearman's rho x 100; 0 if there are fewer than two values or one side is constant."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return 100 * float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def ranks(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the rank of each value, from 1; equal values share the middle of their ranks.

    >>> ranks(np.array([0.5, 0.1, 0.5]))
    array([2.5, 1. , 2.5])
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle: npt.NDArray[np.float64] = np.cumsum(count) - (count - 1) / 2
    return middle[place]


def heldout(
    train: Callable[[WordVectors], Embedder],
    vectors: Any,
    hidden: int | float = 0.1,
    *,
    seed: int = 0,
    dataset: str = "vectors",
    repeats: int = 1000,
) -> Result:
    """Hold out words, train on the others, and compare the held-out words' composed vectors with their true ones.

    The words are drawn evenly from all ranks. Besides the mean cosine, each true vector is ranked among all target
    vectors by its cosine with the composed one: MRR is the mean of 1 / rank, hits@10 the share with rank 10 or better.
    "tail" is the rarer half of the held-out words, if the vectors are sorted by frequency.

    Args:
        train: Makes a model from the remaining vectors.
        vectors: WordVectors, or anything `WordVectors.of` takes.
        hidden: How many words to hold out: a number (int) or a share (float, below 1).
        seed: Determines the held-out words and the draws.
        dataset: The vectors' name.
        repeats: How many samples to draw for the intervals.
    """
    given = WordVectors.of(vectors)
    rows = hidden_rows(len(given), hidden, seed)
    left = np.setdiff1d(np.arange(len(given)), rows)
    model = train(WordVectors([given.words[row] for row in left], given.vectors[left]))
    composed = model.embed([given.words[row] for row in rows])
    rank = true_ranks(composed, given.vectors, rows)
    near = cosines(composed, given.vectors[rows]).astype(np.float64)
    values = {"cosine": near, "MRR": 1 / rank, "hits@1": rank <= 1, "hits@10": rank <= 10}

    def means(first: int, suffix: str) -> dict[str, Score]:
        def measure(drawn: Ints) -> dict[str, float]:
            return {kind + suffix: float(value[first:][drawn].mean()) for kind, value in values.items()}

        return bootstrap(measure, len(rows) - first, repeats=repeats, seed=seed)

    half = len(rows) // 2
    missing = int((np.linalg.norm(composed, axis=1) <= NEAR_ZERO).sum())
    details = {"words": len(given), "hidden": len(rows), "tail": len(rows) - half, "missing": missing, "seed": seed}
    return Result("heldout", dataset, means(0, "") | means(half, ", tail"), details)


def hidden_rows(size: int, hidden: int | float, seed: int) -> Ints:
    """Choose the rows to hold out, in ascending order."""
    if isinstance(hidden, float) and not 0 < hidden < 1:
        raise InputError(f"the share of words to hold out must be between 0 and 1, got {hidden}")
    number = round(hidden * size) if isinstance(hidden, float) else hidden
    if not 1 <= number < size:
        raise InputError(f"cannot hold out {number} of {size} words; hold out at least one and leave at least one")
    return held_out_rows(size, number, seed)


def true_ranks(queries: FloatMatrix, targets: FloatMatrix, rows: Ints) -> npt.NDArray[np.float64]:
    """Return the rank of ``targets[rows[i]]`` among all targets by cosine with query i, from 1; ties share the middle.

    A zero query is equally far from all targets, so its true vector is ranked in the middle.

    >>> targets = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> true_ranks(np.array([[2, 1]], np.float32), targets, np.array([0]))
    array([2.])
    """
    units, asked = unit_rows(targets), unit_rows(queries)
    found = np.empty(len(asked))
    for block in blocks(len(asked), max(1, BLOCK_BYTES // (4 * len(units)))):
        near = asked[block] @ units.T  # (block, n_targets)
        true = near[np.arange(len(near)), rows[block]][:, None]
        better, equal = (near > true).sum(axis=1), (near == true).sum(axis=1)
        found[block] = 1 + better + (equal - 1) / 2
    return found
