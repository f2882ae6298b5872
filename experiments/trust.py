"""The pictures and figures of docs/trust.md: how far confidence can be trusted, on hidden words of published tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib import pyplot

from experiments import tasks
from experiments.figures import save
from experiments.report import cell, table_lines
from experiments.reproduce import HIDDEN_PUBLISHED, Runner
from experiments.rows import Row, read_rows
from pbos.evaluation.results import Result
from pbos.evaluation.words import hidden_rows
from pbos.model import Model
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import FloatMatrix, cosines, unit_rows

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
GLOVE, SIZE = "glove-6b-100d", 100_000
TABLES = {  # a label, the published table, and how many words of it
    "GloVe, 100,000 words": (GLOVE, SIZE),
    "Google News, 26,423 words": ("googlenews-26k", None),
    "Navec, 100,000 words": ("navec-hudlit", 100_000),
    "Chinese Wikipedia, 125,796 words": ("zh-wikipedia", None),
    "GloVe, all 317,730 words": (GLOVE, None),
}
NOISY = "GloVe, all 317,730 words"
EXAMPLES = (
    *("vaccinators", "xylophonist", "rehydrating", "influencers", "unhelpfulness", "unfriendlier", "selfies"),
    *("microservices", "bitcoins", "tensorflow", "chatbots", "greenwashing", "retweeted", "kubernetes", "hashtags"),
    *("emoji", "deepfake", "covid19", "blockchain", "brexit"),
)
BANDS = (0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1)
LEVELS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
RANKS = (0, 5000, 10_000, 20_000, 35_000, 50_000, 75_000, 100_000, 150_000, 200_000, 250_000, 317_730)
NEAREST = 10


class Asked(NamedTuple):
    """Words outside of a model's training words.

    Attributes:
        words: The words.
        ranks: Their ranks in the whole table, from 0.
        composed: Their composed vectors.
        given: The vectors that the table has for them.
        expected: Their confidence.
        true: The cosine of the composed and the given vector.
    """

    words: list[str]
    ranks: npt.NDArray[np.int64]
    composed: FloatMatrix
    given: FloatMatrix
    expected: npt.NDArray[np.float32]
    true: npt.NDArray[np.float32]


def ask(model: Model, table: WordVectors, ranks: npt.NDArray[np.int64]) -> Asked:
    """Compose the vectors of some words of a table, and compare them with the given ones."""
    words = [table.words[rank] for rank in ranks]
    composed, given = model.embed(words), table.vectors[ranks]
    return Asked(words, ranks, composed, given, model.confidence(words), cosines(composed, given))


def train(runner: Runner, row: Row, vectors: WordVectors, name: str) -> Model:
    """Train a row's model on words of a published table."""
    model = runner.make(row, vectors, name)
    assert isinstance(model, Model)
    return model


def make(cache: Path, folder: Path = FOLDER) -> str:
    """Measure all tables, draw the pictures and return the figures in Markdown."""
    matplotlib.use("Agg")
    runner = Runner(Path(), cache)
    (row,) = (row for row in read_rows("real-heldout") if row.model == "default")
    results = {}
    for label, (name, limit) in TABLES.items():
        given = runner.vectors(replace(row, limit=limit), name)
        split = tasks.hide(given, min(HIDDEN_PUBLISHED, len(given) // 5))
        model = train(runner, row, split.kept, name)
        results[label] = tasks.hidden_words(model, split, label)
        if (name, limit) == (GLOVE, SIZE):
            glove, known = model, split.kept
    table = runner.vectors(row, GLOVE)
    hidden = ask(glove, table, np.setdiff1d(np.arange(SIZE), [table.row_of[word] for word in known.words]))
    later = ask(glove, table, SIZE + hidden_rows(len(table) - SIZE, HIDDEN_PUBLISHED, 0))
    whole = train(runner, row, WordVectors(table.words[:SIZE], table.vectors[:SIZE]), GLOVE)
    draw_reliability(results, folder / "trust-reliability.png")
    draw_examples(whole, table, folder / "trust-examples.png")
    draw_frequency(results, hidden, later, folder / "trust-frequency.png")
    parts = (table_figures(results), bands(hidden, known), thresholds(hidden, later), by_rank(hidden, later))
    return "\n\n".join("\n".join(part) for part in (*parts, levels(hidden, known)))


# -- figures -----------------------------------------------------------------------------------------------------------


def table_figures(results: dict[str, Result]) -> Iterable[str]:
    """Yield for each table how well the confidence ranks hidden words, its errors, and the cosines by frequency."""
    names = ["confidence", "calibration error", "largest calibration error", "cosine", "around the mean"]
    names += [f"{kind}, {group}" for group in tasks.GROUPS for kind in ("cosine", "around the mean")]
    body = [
        [label, *(cell(result.scores[name], 3, interval=name == "confidence") for name in names)]
        for label, result in results.items()
    ]
    return table_lines(["table", *names], body)


def bands(hidden: Asked, known: WordVectors) -> Iterable[str]:
    """Yield for bands of confidence what the true cosines are, and how many of the nearest words are right."""
    shared = shared_neighbors(hidden, known)
    body = []
    for low, high in itertools.pairwise(BANDS):
        inside = (hidden.expected >= low) & ((hidden.expected < high) | (high == 1))
        true = hidden.true[inside]
        ends = " to ".join(f"{value:.2f}" for value in np.percentile(true, [10, 90]))
        row = [f"{low:g} to {high:g}", f"{inside.mean():.0%}", f"{hidden.expected[inside].mean():.2f}"]
        body.append([*row, f"{true.mean():.2f}", ends, f"{shared[inside].mean():.1f}"])
    return table_lines(["confidence", "words", "expected", "true", "8 of 10 words", "shared neighbors"], body)


def shared_neighbors(asked: Asked, known: WordVectors) -> npt.NDArray[np.float64]:
    """Return how many of the ten known words nearest to the given vector are among the ten nearest to the composed."""
    one, other = (nearest(rows, known) for rows in (asked.composed, asked.given))
    return np.array([float(np.intersect1d(*pair).size) for pair in zip(one, other, strict=True)])


def nearest(vectors: FloatMatrix, known: WordVectors, n: int = NEAREST) -> npt.NDArray[np.int64]:
    """Return the rows of the known words nearest to each vector, nearest first."""
    units = unit_rows(known.vectors).T
    parts = np.array_split(unit_rows(vectors), 1 + len(vectors) // 500)
    return np.concatenate([np.argsort(-(part @ units), axis=1)[:, :n] for part in parts])


def thresholds(hidden: Asked, later: Asked) -> Iterable[str]:
    """Yield how many words a least confidence keeps, and how good those are."""
    body = []
    for least in (0, *LEVELS):
        cells = []
        for asked in (hidden, later):
            kept = asked.expected >= least
            cells += [f"{kept.mean():.0%}", f"{asked.true[kept].mean():.2f}"]
        body.append([f"{least:g}", *cells])
    return table_lines(["least confidence", "hidden words", "their cosine", "later words", "their cosine"], body)


def by_rank(hidden: Asked, later: Asked) -> Iterable[str]:
    """Yield the expected and the true cosine by rank."""
    body = [
        [f"{low:,} to {high:,}", f"{one:.3f}", f"{other:.3f}"] for low, high, one, other in rank_means(hidden, later)
    ]
    return table_lines(["ranks", "expected", "true"], body)


def rank_means(hidden: Asked, later: Asked) -> Iterable[tuple[int, int, float, float]]:
    """Yield the ends of a group of ranks, and the mean expected and true cosine of its words."""
    ranks = np.concatenate([hidden.ranks, later.ranks])
    expected, true = (np.concatenate(pair) for pair in ((hidden.expected, later.expected), (hidden.true, later.true)))
    for low, high in itertools.pairwise(RANKS):
        inside = (ranks >= low) & (ranks < high)
        yield low, high, float(expected[inside].mean()), float(true[inside].mean())


def levels(hidden: Asked, known: WordVectors) -> Iterable[str]:
    """Yield for some levels of confidence the two hidden words closest to it, with neighbors."""
    rows = [row for level in LEVELS for row in np.argsort(np.abs(hidden.expected - level), kind="stable")[:2]]
    found = [nearest(vectors[rows], known, 3) for vectors in (hidden.composed, hidden.given)]
    body = [
        [f"{hidden.expected[row]:.2f}", hidden.words[row], f"{hidden.true[row]:.2f}"]
        + [", ".join(known.words[at] for at in near[place]) for near in found]
        for place, row in enumerate(rows)
    ]
    return table_lines(["confidence", "word", "true cosine", "near the composed vector", "near the true one"], body)


# -- pictures ----------------------------------------------------------------------------------------------------------


def draw_reliability(results: dict[str, Result], file: Path) -> Path:
    """Draw true against expected cosines, by tenths of the hidden words of each table."""
    figure, axes = pyplot.subplots(figsize=(6, 5.5), layout="constrained")
    axes.plot([0, 1], [0, 1], color="gray", linewidth=0.8)
    for label, result in results.items():
        rho = result.scores["confidence"].value
        style = "--o" if label == NOISY else "-o"
        axes.plot(*zip(*result.details["tenths"], strict=True), style, label=f"{label} (ρ {rho:.2f})", markersize=4)
    axes.set(xlabel="confidence: the cosine expected", ylabel="true cosine", xlim=(0, 0.9), ylim=(0, 0.9))
    axes.set_title("Hidden words, by tenths of confidence")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return save(figure, file)


def draw_examples(model: Model, table: WordVectors, file: Path) -> Path:
    """Draw the confidence of words that a model does not know, with its neighbors and, where known, the true cosine."""
    expected = model.confidence(EXAMPLES)
    order = np.argsort(expected)
    figure, axes = pyplot.subplots(figsize=(9, 6), layout="constrained")
    axes.barh(range(len(order)), expected[order], color="tab:blue", alpha=0.7, label="confidence")
    known = [(place, EXAMPLES[at]) for place, at in enumerate(order) if EXAMPLES[at] in table]
    true = [float(cosines(model[[word]], table[[word]])[0]) for _, word in known]
    axes.plot(
        true, [place for place, _ in known], "D", color="tab:orange", label="true cosine, where GloVe has the word"
    )
    for place, at in enumerate(order):
        near = ", ".join(word for word, _ in model.neighbors(EXAMPLES[at], n=3))
        axes.text(0.76, place, near, va="center", fontsize="small")
    axes.set_yticks(range(len(order)), [EXAMPLES[at] for at in order])
    axes.set(xlim=(0, 1.12), xlabel="cosine", title="Words unknown to a model of the first 100,000 words of GloVe")
    axes.set_xticks(np.arange(0, 0.8, 0.1))
    axes.text(0.76, len(order) - 0.3, "nearest words", fontsize="small", weight="bold")
    axes.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.42, 0))
    return save(figure, file)


def draw_frequency(results: dict[str, Result], hidden: Asked, later: Asked, file: Path) -> Path:
    """Draw the cosine of hidden words for frequent and rare ones apart; for GloVe, by rank and beyond the table."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
    names = {**{group: f", {group}" for group in tasks.GROUPS}, "all": ""}
    for at, (group, name) in enumerate(names.items()):
        scores = [result.scores[f"cosine{name}"] for result in results.values()]
        ends = [
            [score.value - (score.low or 0) for score in scores],
            [(score.high or 0) - score.value for score in scores],
        ]
        places = np.arange(len(results)) + 0.2 * at
        color = "gray" if group == "all" else f"C{at}"
        left.bar(places, [score.value for score in scores], 0.2, yerr=ends, label=group, color=color, alpha=0.7)
        around = [result.scores[f"around the mean{name}"].value for result in results.values()]
        label = "without the mean vector" if group == "all" else None
        left.plot(places, around, "_", color="black", markersize=9, markeredgewidth=2, label=label)
    left.set_xticks(np.arange(len(results)) + 0.3, [label.replace(", ", "\n") for label in results], fontsize="x-small")
    left.set(ylabel="mean cosine with the true vector", title="Hidden words by frequency")
    left.legend(fontsize="small", ncols=2, loc="upper left")
    left.set(ylim=(0, 0.85))
    low, high, expected, true = (np.array(column) for column in zip(*rank_means(hidden, later), strict=True))
    right.plot((low + high) / 2, true, "-o", label="true cosine", color="tab:orange", markersize=4)
    right.plot((low + high) / 2, expected, "--o", label="confidence", color="tab:blue", markersize=4)
    right.axvline(SIZE, color="gray", linewidth=0.8)
    right.text(SIZE, 0.65, " after the training words", fontsize="small", color="gray")
    right.set(xlabel="rank of the word", title="A model of the first 100,000 words of GloVe")
    right.legend(fontsize="small")
    for axes in (left, right):
        axes.grid(axis="y", alpha=0.3)
    return save(figure, file)
