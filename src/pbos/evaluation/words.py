"""Tasks on single words: similarity, affix prediction, held-out words. Each returns a Result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, MissingExtraError
from pbos.evaluation.datasets import AffixRow, Pair
from pbos.evaluation.results import Embedder, Result, Score, bootstrap
from pbos.segmenter import Segmenter
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import NEAR_ZERO, FloatMatrix, cosines, unit_rows
from pbos.words.text import BOUNDARIES, as_words

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


# Similarity -----------------------------------------------------------------------------------------------------------


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
    found = first.details["cosines"], second.details["cosines"], first.details["human"]
    one, other, human = map(np.array, found)

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
    try:
        from scipy.stats import rankdata
    except ImportError:
        raise MissingExtraError("word similarity", "eval") from None
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return 100 * float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])  # a tenth of the time of spearmanr


# Affixes --------------------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """A derived word, the number of its affix, and the numbers of all affixes that its spelling contains."""

    word: str
    right: int
    candidates: list[int]


def affix_questions(rows: Iterable[AffixRow], name: str = "affix") -> tuple[list[Question], list[str]]:
    """Return the paper's questions and affixes: without -y, and without words that contain fewer than two affixes.

    An affix keeps its hyphen, which shows where it stands: "-ion", "un-".

    >>> rows = [AffixRow("-ion", "abrade", "abrasion"), AffixRow("-er", "bake", "baker"), AffixRow("-a", "x", "xa")]
    >>> affix_questions(rows)[0]
    [Question(word='abrasion', right=2, candidates=[0, 2]), Question(word='baker', right=1, candidates=[0, 1])]
    """
    pairs = [(row.affix, row.word) for row in rows if row.affix.strip("-") != "y"]
    affixes = sorted({affix for affix, _ in pairs}, key=lambda affix: (affix.strip("-"), affix))
    questions = [
        Question(word, affixes.index(affix), [at for at, one in enumerate(affixes) if one.strip("-") in word])
        for affix, word in pairs
    ]
    questions = [question for question in questions if len(question.candidates) >= 2]
    if not questions:
        raise InputError(f"{name}: no word contains two of the affixes, so there is nothing to guess")
    return questions, affixes


def affix(
    segmenter: Segmenter, rows: Iterable[AffixRow], name: str = "affix", *, repeats: int = 1000, seed: int = 0
) -> Result:
    """Guess each word's affix, the candidate with the largest weight: macro precision, recall and F1.

    Args:
        segmenter: A model, or a segmenter made from counts.
        rows: As returned by `datasets.read_affixes`.
        name: The data set's name.
        repeats: How many samples of words to draw for the intervals.
        seed: Determines the draws.
    """
    questions, affixes = affix_questions(rows, name)
    right = np.array([question.right for question in questions])
    guesses = np.array([guess(segmenter, question, affixes) for question in questions])
    scores = bootstrap(lambda drawn: macro(right[drawn], guesses[drawn]), len(right), repeats=repeats, seed=seed)
    details = {"words": len(questions), "affixes": len(affixes), "protocol": "the candidate with the largest weight"}
    return Result("affix", name, scores, details)


def guess(segmenter: Segmenter, question: Question, affixes: list[str]) -> int:
    """Return the candidate with the largest weight, the first of equals.

    With boundary marks, the weight that counts is that of the affix with its mark ("<un", "ness>"), because the same
    letters inside the word are not the affix.
    """
    weights = dict(segmenter.weights(question.word))
    left, right = BOUNDARIES if segmenter.spelling.boundaries else ("", "")

    def weight(at: int) -> float:
        affix = affixes[at]
        letters = affix.strip("-")
        return weights.get(f"{letters}{right}" if affix.startswith("-") else f"{left}{letters}", 0.0)

    return max(question.candidates, key=weight)


def macro(right: Ints, guesses: Ints) -> dict[str, float]:
    """Return precision, recall and F1, averaged over the affixes that are right or guessed at least once."""
    try:
        from sklearn.metrics import precision_recall_fscore_support
    except ImportError:
        raise MissingExtraError("affix prediction", "eval") from None
    found = precision_recall_fscore_support(right, guesses, average="macro", zero_division=0)
    return dict(zip(("precision", "recall", "f1"), map(float, found[:3]), strict=True))


# Morphemes ------------------------------------------------------------------------------------------------------------


def morphemes(
    segmenter: Segmenter,
    gold: Mapping[str, Sequence[Sequence[str]]],
    name: str = "morphemes",
    *,
    repeats: int = 1000,
    seed: int = 0,
) -> Result:
    """Compare the best segmentation of words with their morphemes: precision, recall and F1 of the boundaries.

    Precision and recall are means over words, as in Morfessor: of a word's analyses the nearest counts, and a word
    without any boundary to find counts 1.

    Args:
        segmenter: A model, or a segmenter made from counts.
        gold: The analyses of each word, as returned by `datasets.read_morphemes`.
        name: The data set's name.
        repeats: How many samples of words to draw for the intervals.
        seed: Determines the draws.
    """
    if not gold:
        raise InputError(f"{name}: there are no words to segment")
    parts = []
    for (best,), analyses in zip(segmenter.segment(list(gold)), gold.values(), strict=True):
        ours, right = boundaries(best.pieces), [boundaries(analysis) for analysis in analyses]
        parts.append((max(share(ours, one) for one in right), max(share(one, ours) for one in right)))
    values = np.array(parts)

    def measure(drawn: Ints) -> dict[str, float]:
        precision, recall = values[drawn].mean(axis=0).tolist()
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        return {"f1": f1, "precision": precision, "recall": recall}

    scores = bootstrap(measure, len(values), repeats=repeats, seed=seed)
    return Result("morphemes", name, scores, {"words": len(values), "protocol": "inner boundaries, macro over words"})


def boundaries(pieces: Sequence[str]) -> set[int]:
    """Return where a word is cut.

    >>> sorted(boundaries(["un", "friend", "ly"]))
    [2, 8]
    """
    return set(itertools.accumulate(len(piece) for piece in pieces[:-1]))


def share(some: set[int], others: set[int]) -> float:
    """Return the share of some boundaries that are among others; 1 if there are none."""
    return len(some & others) / len(some) if some else 1.0


# Held-out words -------------------------------------------------------------------------------------------------------


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
    return np.sort(np.random.default_rng(seed).choice(size, number, replace=False))


def true_ranks(queries: FloatMatrix, targets: FloatMatrix, rows: Ints) -> npt.NDArray[np.float64]:
    """Return the rank of ``targets[rows[i]]`` among all targets by cosine with query i, from 1; ties share the middle.

    A zero query is equally far from all targets, so its true vector is ranked in the middle.

    >>> targets = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> true_ranks(np.array([[2, 1]], np.float32), targets, np.array([0]))
    array([2.])
    """
    units, asked = unit_rows(targets), unit_rows(queries)
    found = np.empty(len(asked))
    block = max(1, BLOCK_BYTES // (4 * len(units)))
    for start in range(0, len(asked), block):
        near = asked[start : start + block] @ units.T  # (block, n_targets)
        true = near[np.arange(len(near)), rows[start : start + block]][:, None]
        better, equal = (near > true).sum(axis=1), (near == true).sum(axis=1)
        found[start : start + block] = 1 + better + (equal - 1) / 2
    return found
