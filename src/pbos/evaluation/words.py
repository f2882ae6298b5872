"""Tasks on single words: similarity, segmentation, affixes, hidden words, speed. Each returns a Result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from os import PathLike
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.evaluation.datasets import AffixRow, Pair, multilingual_pairs
from pbos.evaluation.results import Embedder, Result, Score, bootstrap
from pbos.model import NEAR_ZERO, Model, cosines, unit_rows
from pbos.segmenter import Segmenter
from pbos.subword_vectors import FloatMatrix
from pbos.text import BOUNDARIES, as_words
from pbos.vectors import WordVectors

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BLOCK_BYTES = 1 << 26  # of cosines held at a time when ranking

# Table 1 of the paper.
PAPER_SEGMENTATIONS = {
    "higher": {"higher": 0.924, "high/er": 0.030, "highe/r": 0.027, "h/igher": 0.007, "hig/her": 0.004},
    "farmland": {"farmland": 0.971, "farmlan/d": 0.010, "farm/land": 0.006, "f/armland": 0.005},
    "penpineapplepie": {"pen/pineapple/pie": 0.359, "pen/pineapple/pi/e": 0.157, "pen/pineapple/p/ie": 0.101},
    "paradichlorobenzene": {
        "para/dichlorobenzene": 0.611,
        "par/a/dichlorobenzene": 0.110,
        "paradi/chlorobenzene": 0.083,
    },
}
PAPER_WEIGHTS = {
    "higher": {"higher": 0.852, "high": 0.031, "er": 0.029, "r": 0.029, "highe": 0.025},
    "farmland": {"farmland": 0.941, "d": 0.010, "farmlan": 0.009, "farm": 0.008, "land": 0.007},
    "penpineapplepie": {"pineapple": 0.238, "pen": 0.186, "pie": 0.131, "p": 0.101, "e": 0.099},
    "paradichlorobenzene": {
        "dichlorobenzene": 0.344,
        "para": 0.283,
        "a": 0.061,
        "par": 0.054,
        "ichlorobenzene": 0.042,
    },
}


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
    """Compare cosines with human judgement: Spearman's rho x 100.

    As in the paper, words are lower-cased and a pair of which a word has no vector (or one shorter than 1e-6) scores 0.
    The second figure leaves such pairs out.

    Args:
        model: Anything that embeds words.
        pairs: Word, word, score.
        name: The data set's name.
        keep_cosines: Keep the pairs' cosines and scores in the details, for `difference`.
        repeats: How many samples to draw for the intervals.
        seed: Fixes them.
    """
    pairs = list(pairs)
    if len(pairs) < 2:
        raise InputError(f"{name}: similarity needs at least two pairs, got {len(pairs)}")
    human = np.array([score for _, _, score in pairs], np.float64)
    left, right = embed_pairs(model, pairs)
    near = cosines(left, right).astype(np.float64)
    both = (np.linalg.norm(left, axis=1) > NEAR_ZERO) & (np.linalg.norm(right, axis=1) > NEAR_ZERO)

    def score(x: Floats, y: Floats) -> Score:
        x_codes, y_codes = dense(x), dense(y)

        def rho(drawn: Ints) -> float:
            return 100 * correlation(ranks(x_codes[drawn]), ranks(y_codes[drawn]))

        return bootstrap(rho(np.arange(len(x))), rho, len(x), repeats=repeats, seed=seed)

    scores = {"spearman": score(near, human), "spearman, pairs with both vectors": score(near[both], human[both])}
    missing = int(len(pairs) - both.sum())
    protocol = "Spearman's rho x 100, words lower-cased, a pair with a missing or near-zero vector scores 0"
    details: dict[str, Any] = {"pairs": len(pairs), "missing_pairs": missing, "protocol": protocol}
    if keep_cosines:
        details |= {"cosines": near.round(5).tolist(), "human": human.tolist()}
    return Result("similarity", name, scores, details)


def difference(first: Result, second: Result, *, repeats: int = 1000, seed: int = 0) -> Score:
    """Return by how much the first model's rho is above the second's on the same pairs, with its interval.

    Samples of the pairs are drawn for both models alike, so what the pairs have in common does not widen the interval.
    """
    one, other, human = (dense(np.array(values)) for values in (
        first.details["cosines"], second.details["cosines"], first.details["human"]))  # fmt: skip

    def gap(drawn: Ints) -> float:
        judged = ranks(human[drawn])
        return 100 * (correlation(ranks(one[drawn]), judged) - correlation(ranks(other[drawn]), judged))

    return bootstrap(gap(np.arange(len(human))), gap, len(human), repeats=repeats, seed=seed)


def embed_pairs(model: Embedder, pairs: Sequence[Pair]) -> tuple[FloatMatrix, FloatMatrix]:
    """Return the vectors of the pairs' first and second words, each word embedded once."""
    words = [word.lower() for first, second, _ in pairs for word in (first, second)]
    row_of = {word: row for row, word in enumerate(dict.fromkeys(words))}
    vectors = model.embed(list(row_of))
    rows = [row_of[word] for word in words]
    return vectors[rows[::2]], vectors[rows[1::2]]


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return Spearman's rho, equal values sharing the mean of their ranks; 0 where one side is constant.

    >>> spearman([1, 2, 2, 4], [10, 20, 30, 40])
    0.9486832980505138
    """
    return correlation(ranks(dense(np.asarray(x))), ranks(dense(np.asarray(y))))


def dense(values: npt.NDArray[Any]) -> Ints:
    """Number the distinct values in ascending order, from 0."""
    codes: Ints = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return codes


def ranks(codes: Ints) -> Floats:
    """Rank values numbered by `dense`, from 1; counting replaces sorting, so that a thousand samples are quick."""
    counts = np.bincount(codes)
    middle = np.cumsum(counts) - (counts - 1) / 2
    ranked: Floats = middle[codes]
    return ranked


def correlation(x: Floats, y: Floats) -> float:
    """Return Pearson's r; 0 where there are fewer than two values or one side is constant: nothing is ordered then."""
    if len(x) < 2:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(np.clip(x @ y / size, -1, 1)) if size > 0 else 0.0


def multilingual(
    model: Embedder, language: str, data: str | PathLike[str] | None = None, *, repeats: int = 1000, seed: int = 0
) -> list[Result]:
    """Return similarity on WS353, WS353-rel, WS353-sim and SimLex999 in a language: en, de, it or ru."""
    sets = multilingual_pairs(language, data)
    return [similarity(model, pairs, f"{language} {kind}", repeats=repeats, seed=seed) for kind, pairs in sets.items()]


# Segmentation ---------------------------------------------------------------------------------------------------------


def segmentation(segmenter: Segmenter, n: int = 5) -> Result:
    """Return Table 1 of the paper: the top segmentations and weights of four words, with the paper's figures.

    The score is the largest difference from a figure in the paper; it says something for the paper's counts only.

    Args:
        segmenter: From counts, or a model.
        n: How many segmentations and weights of each word to list.
    """
    details, differences = {}, []
    for word in PAPER_SEGMENTATIONS:
        cuts = {"/".join(cut.pieces): float(cut.probability) for cut in segmenter.segment(word, max(n, 50))}
        weights = dict(segmenter.weights(word))
        details[word] = {
            "segmentations": [(text, value) for text, value in cuts.items()][:n],
            "weights": [(text, float(value)) for text, value in weights.items()][:n],
        }
        differences += [abs(cuts.get(text, 0.0) - value) for text, value in PAPER_SEGMENTATIONS[word].items()]
        differences += [abs(weights.get(text, 0.0) - value) for text, value in PAPER_WEIGHTS[word].items()]
    scores = {"largest difference from the paper": Score(float(max(differences)))}
    paper = {"segmentations": PAPER_SEGMENTATIONS, "weights": PAPER_WEIGHTS}
    return Result("segmentation", "Table 1", scores, {"words": details, "paper": paper})


# Affixes --------------------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """A derived word, the number of its affix, and of all affixes its spelling holds."""

    word: str
    right: int
    candidates: list[int]


def affix_questions(rows: Iterable[AffixRow]) -> tuple[list[Question], list[str]]:
    """Return the paper's questions and affixes: -y is dropped, and words that hold fewer than two of the affixes.

    An affix keeps its hyphen, which tells where it stands: "-ion", "un-".

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
    return [question for question in questions if len(question.candidates) >= 2], affixes


def affix(
    segmenter: Segmenter, rows: Iterable[AffixRow], name: str = "affix", *, repeats: int = 1000, seed: int = 0
) -> Result:
    """Guess each word's affix, the one with the largest weight: macro precision, recall and F1.

    Args:
        segmenter: From counts, or a model.
        rows: As `datasets.read_affixes` gives them.
        name: The data set's name.
        repeats: How many samples of words to draw for the intervals.
        seed: Fixes them.
    """
    questions, affixes = checked_questions(rows, name)
    right = np.array([question.right for question in questions])
    guesses = np.array([guess(segmenter, question, affixes) for question in questions])

    def score(which: int) -> Score:
        def measure(drawn: Ints) -> float:
            return macro(right[drawn], guesses[drawn], len(affixes))[which]

        return bootstrap(measure(np.arange(len(right))), measure, len(right), repeats=repeats, seed=seed)

    scores = {"precision": score(0), "recall": score(1), "f1": score(2)}
    details = {"words": len(questions), "affixes": len(affixes), "protocol": "the candidate with the largest weight"}
    return Result("affix", name, scores, details)


def guess(segmenter: Segmenter, question: Question, affixes: list[str]) -> int:
    """Return the candidate with the largest weight; of equal ones the first.

    An affix stands at the start or the end of its word. Where words are written with boundary marks, what counts is
    therefore the weight of the affix with its mark ("<un", "ness>"), and not that of the same letters inside the word.
    """
    weights = dict(segmenter.weights(question.word))
    left, right = BOUNDARIES if segmenter.spelling.boundaries else ("", "")

    def weight(at: int) -> float:
        affix = affixes[at]
        letters = affix.strip("-")
        return weights.get(f"{letters}{right}" if affix.startswith("-") else f"{left}{letters}", 0.0)

    return max(question.candidates, key=weight)


def affix_random(rows: Iterable[AffixRow], seed: int = 0, name: str = "affix", *, repeats: int = 1000) -> Result:
    """Guess each word's affix by drawing one of its candidates: the figures to compare `affix` with.

    Precision, recall and F1 are the averages over 100 draws; their intervals come from samples of the words, each with
    a draw of its own. Accuracy is its exact expectation, the mean of 1 / number of candidates.
    """
    questions, affixes = checked_questions(rows, name)
    right = np.array([question.right for question in questions])
    sizes = np.array([len(question.candidates) for question in questions])
    table = np.array([list(islice(cycle(question.candidates), int(sizes.max()))) for question in questions])
    random = np.random.default_rng(seed)

    def draw(words: Ints) -> tuple[float, float, float]:
        chosen = table[words, random.integers(0, sizes[words])]
        return macro(right[words], chosen, len(affixes))

    every = np.arange(len(right))
    values = np.mean([draw(every) for _ in range(100)], axis=0).tolist()
    drawn = [draw(random.integers(0, len(right), len(right))) for _ in range(repeats)]
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0).tolist()
    scores = {kind: Score(values[at], low[at], high[at]) for at, kind in enumerate(("precision", "recall", "f1"))}
    chances = 1 / sizes
    scores["accuracy"] = mean(chances, repeats, seed)
    protocol = "a random candidate; the average over 100 draws, accuracy its exact expectation"
    return Result("affix", name, scores, {"words": len(questions), "affixes": len(affixes), "protocol": protocol})


def checked_questions(rows: Iterable[AffixRow], name: str) -> tuple[list[Question], list[str]]:
    """Return the questions, of which there has to be one."""
    questions, affixes = affix_questions(rows)
    if not questions:
        raise InputError(f"{name}: no word holds two of the affixes, so there is nothing to guess")
    return questions, affixes


def macro(right: Ints, guesses: Ints, size: int) -> tuple[float, float, float]:
    """Return precision, recall and F1 averaged over the labels that are right or guessed at least once."""
    hits = np.bincount(right[right == guesses], minlength=size)
    guessed, wanted = np.bincount(guesses, minlength=size), np.bincount(right, minlength=size)
    present = guessed + wanted > 0
    hits, guessed, wanted = hits[present], guessed[present], wanted[present]
    precision, recall = hits / np.maximum(guessed, 1), hits / np.maximum(wanted, 1)
    return float(precision.mean()), float(recall.mean()), float((2 * hits / (guessed + wanted)).mean())


# Hidden words ---------------------------------------------------------------------------------------------------------


def heldout(
    train: Callable[[WordVectors], Embedder],
    vectors: Any,
    hidden: int | float = 0.1,
    *,
    seed: int = 0,
    dataset: str = "vectors",
    repeats: int = 1000,
) -> Result:
    """Hide words, train on the others, and see how near the hidden words' composed vectors come to their true ones.

    The words are drawn evenly from all ranks. Besides the mean cosine, each true vector is looked for among all target
    vectors, nearest to the composed one first: MRR is the mean of 1 / rank, hits@10 the share found among the first
    ten. "tail" is the rarer half of the hidden words, if the vectors come most frequent first.

    Args:
        train: Makes a model from the vectors that are left.
        vectors: WordVectors, or what `WordVectors.of` takes.
        hidden: How many words to hide: a number (int) or a share (float, below 1).
        seed: Fixes their choice and the intervals.
        dataset: The vectors' name.
        repeats: How many samples to draw for the intervals.
    """
    given = WordVectors.of(vectors)
    rows = hidden_rows(len(given), hidden, seed)
    left = np.setdiff1d(np.arange(len(given)), rows)
    model = train(WordVectors([given.words[row] for row in left], given.vectors[left]))
    composed = model.embed([given.words[row] for row in rows])
    near = cosines(composed, given.vectors[rows]).astype(np.float64)
    found = true_ranks(composed, given.vectors, rows)

    values = {"cosine": near, "MRR": 1 / found, "hits@1": (found <= 1) * 1.0, "hits@10": (found <= 10) * 1.0}
    half = len(rows) // 2
    values |= {f"{kind}, tail": value[half:] for kind, value in values.items()}
    scores = {kind: mean(value, repeats, seed) for kind, value in values.items()}
    missing = int((np.linalg.norm(composed, axis=1) <= NEAR_ZERO).sum())
    details = {"words": len(given), "hidden": len(rows), "tail": len(rows) - half, "missing": missing, "seed": seed}
    return Result("heldout", dataset, scores, details)


def hidden_rows(size: int, hidden: int | float, seed: int) -> Ints:
    """Choose the rows to hide, in ascending order."""
    if isinstance(hidden, float) and not 0 < hidden < 1:
        raise InputError(f"the share of words to hide must be between 0 and 1, got {hidden}")
    number = round(hidden * size) if isinstance(hidden, float) else hidden
    if not 1 <= number < size:
        raise InputError(f"cannot hide {number} of {size} words; at least one has to be hidden and one left")
    return np.sort(np.random.default_rng(seed).choice(size, number, replace=False))


def true_ranks(queries: FloatMatrix, targets: FloatMatrix, rows: Ints) -> Floats:
    """Return the rank of ``targets[rows[i]]`` among all targets by cosine with query i, from 1; ties share the middle.

    A query without direction is equally far from all, so its true vector is ranked in the middle.

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


def mean(values: npt.NDArray[np.floating[Any]], repeats: int, seed: int) -> Score:
    """Return a mean with its interval."""
    return bootstrap(
        float(values.mean()), lambda drawn: float(values[drawn].mean()), len(values), repeats=repeats, seed=seed
    )


# Speed ----------------------------------------------------------------------------------------------------------------


def speed(model: Embedder, words: Iterable[str], dataset: str = "words", *, repeats: int = 5) -> Result:
    """Measure how long a word takes, alone and among many, in microseconds, and how large the model is.

    Args:
        model: Anything that embeds words.
        words: To be embedded; the first 1,000 are also embedded one by one.
        dataset: Their name.
        repeats: How often all words are embedded at once; the middle time counts.
    """
    words = as_words(words)
    if not words:
        raise InputError("speed needs at least one word to embed")
    model.embed(words[:10])  # compiling and mapping files into memory are not what is measured
    alone = [seconds(model, [word]) for word in words[:1000]]
    together = median(seconds(model, words) for _ in range(repeats)) / len(words)
    low, high = np.percentile(alone, [2.5, 97.5])
    scores = {
        "µs a word, one by one": Score(1e6 * median(alone), 1e6 * float(low), 1e6 * float(high)),
        "µs a word, in a batch": Score(1e6 * together),
        **{kind: Score(float(size)) for kind, size in size_of(model).items()},
    }
    protocol = "medians; the interval one by one covers 95 % of the words"
    return Result("speed", dataset, scores, {"words": len(words), "protocol": protocol})


def seconds(model: Embedder, words: list[str]) -> float:
    """Return how long embedding takes."""
    start = time.perf_counter()
    model.embed(words)
    return time.perf_counter() - start


def size_of(model: Any) -> dict[str, int]:
    """Return the number of trained parameters and the bytes a model holds, as far as it tells.

    For a pbos model: its subword vectors, and those together with the index of subwords. Others tell by attributes
    `parameters` and `nbytes`; without the latter, four bytes a parameter are assumed.
    """
    if isinstance(model, Model):
        index = sum(array.nbytes for array in model.index.arrays)
        return {"parameters": int(model.vectors.values.size), "bytes": int(model.vectors.nbytes + index)}
    parameters = getattr(model, "parameters", None)
    if parameters is None:
        return {}
    return {"parameters": int(parameters), "bytes": int(getattr(model, "nbytes", 4 * parameters))}
