"""Contexts beside spelling, on words whose true vectors are known: the figures of docs/context.md.

- glove, navec: hidden words of GloVe and English novels, and of Navec and the Russian text of `corpora`. Of each word,
  k occurrences are drawn; their sentences go to a model as `Model.embed(..., contexts=...)` takes them. "all" are the
  co-occurrences of the whole text, as `pbos.complete(..., text=...)` uses them.
- chimeras, nonces: passages about made-up words, and definitions of hidden words.
- rare: what contexts add to the vectors of rare words that a table has.
- biomedical: similarity of medical terms that a table lacks.
- cost: the processor time of `pbos complete --text` beside that of `pbos count`.

Beside these, A La Carte (Khodak et al. 2018) as published: the sum of the vectors of ten words on each side, mean over
occurrences, times its matrix; and the plain mean of these sums, without a matrix (Lazaridou et al. 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments import corpora, data
from experiments.context_tasks import biomedical, cost, rare
from experiments.context_vectors import (
    A_LA_CARTE,
    BOTH,
    CONTEXTS,
    FOLDER,
    SIZE,
    SPELLING,
    Text,
    a_la_carte,
    blob,
    counted,
    from_sentences,
    from_text,
    novels,
    published_matrix,
    read,
    trained,
)
from experiments.report import cell, table_lines
from pbos.errors import InputError
from pbos.evaluation.results import Score, bootstrap
from pbos.evaluation.words import spearman
from pbos.model import Model
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import FloatMatrix, cosines, unit_rows

HIDDEN, LEAST_COUNT, FIRST_RANK = 5000, 20, 200  # hidden words: how many, how often in the text, from which rank
TIMES = (1, 2, 4, 8, 16, 64, None)  # occurrences that a model sees; None for all
FREQUENT, LOW, HIGH = 30_000, 0.35, 0.7  # ranks below are frequent; a confidence below is low, one above is high
TENTHS, DRAWS = 10, 200
NONCE = "zzxq"  # a word whose vector comes from its contexts alone
PUBLISHED, OWN, PLAIN = "A La Carte", "A La Carte, fitted to this text", "plain mean"


def make(names: Iterable[str], folder: Path) -> Iterator[str]:
    """Yield the tables of the named experiments in Markdown; `folder` has the data that is not fetched."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name not in EXPERIMENTS:
            raise InputError(f"unknown experiment {name!r}; choose from: {', '.join(EXPERIMENTS)}")
        yield f"## {name}\n"
        yield from EXPERIMENTS[name](folder)
        yield ""


# Hidden words ---------------------------------------------------------------------------------------------------------


def hidden_words(name: str, table: WordVectors, file: Path, matrix: FloatMatrix | None) -> Iterator[str]:
    """Yield tables about hidden words of a table that occur in a text; `matrix` is that of A La Carte, if published."""
    text, random = Text(read(file)), np.random.default_rng(1)
    suited = [
        row
        for row, word in enumerate(table.words)
        if row >= FIRST_RANK and word.isalpha() and word in text.place_of
        if text.counts[text.place_of[word]] >= LEAST_COUNT
    ]
    ranks = np.sort(random.choice(suited, HIDDEN, replace=False))
    words, true = [table.words[rank] for rank in ranks], table.vectors[ranks]
    pairs = counted(name, file)
    model = trained(f"{name}-hidden", table, words, pairs)
    mean = unit_rows(table.vectors.mean(axis=0, keepdims=True))[0]
    confidence = model.confidence(words)
    groups = {
        "frequent": ranks < FREQUENT,
        "rare": ranks >= FREQUENT,
        "low confidence": confidence < LOW,
        "high confidence": confidence >= HIGH,
    }
    vectors, own = a_la_carte(text, table, set(words))
    matrices = {PUBLISHED: matrix, OWN: own, PLAIN: np.eye(table.dims, dtype=np.float32)}
    plain, around = [], []
    gaps = [["0", "–", "–", *calibration_cells(confidence, cosines(model.embed(words), true)), "0"]]
    for times in TIMES:
        at = {word: text.occurrences(word, times, random) for word in words}
        if times is None:
            found = from_text(model, pairs, words)
        else:
            found = from_sentences(model, words, {word: [*map(text.sentence, at[word])] for word in words})
        windows = text.mean_windows(np.concatenate(list(at.values())), vectors)
        windows = windows[[text.place_of[word] for word in words]]
        made = found.vectors | {kind: windows @ one for kind, one in matrices.items() if one is not None}
        shown = "all" if times is None else str(times)
        near = {kind: cosines(vectors, true) for kind, vectors in made.items()}
        plain.append([shown, *(in_groups(values, groups) for values in near.values())])
        rest = {kind: cosines(without(vectors, mean), without(true, mean)) for kind, vectors in made.items()}
        around.append([shown, *(in_groups(values, groups) for values in rest.values())])
        calibrated = calibration_cells(found.mixed.confidence, near[BOTH])
        gaps.append([shown, *gains(near), *calibrated, f"{found.mixed.shares.mean():.2f}"])
    sizes = ", ".join(f"{kind}: {int(inside.sum()):,} words" for kind, inside in groups.items())
    yield f"{len(text.ids):,} words of text; {len(words):,} hidden words ({sizes}). Cosines: {' / '.join(groups)}.\n"
    yield from table_lines(["occurrences", *near], plain)
    yield "\nThe same without the mean direction of the table.\n"
    yield from table_lines(["occurrences", *near], around)
    yield "\nWhat both gain, all words; and calibration.\n"
    head = [
        "over spelling",
        "over contexts",
        "expected",
        "found",
        "largest error of tenths (by chance)",
        "share of contexts",
    ]
    yield from table_lines(["occurrences", *head], gaps)


def without(vectors: FloatMatrix, direction: npt.NDArray[np.float32]) -> FloatMatrix:
    """Return vectors of length 1 without their part in a direction."""
    vectors = unit_rows(vectors)
    return vectors - (vectors @ direction)[:, None] * direction


def in_groups(values: npt.NDArray[np.float32], groups: dict[str, npt.NDArray[np.bool_]]) -> str:
    """Return the mean of each group."""
    return " / ".join(f"{values[inside].mean():.3f}" for inside in groups.values())


def gains(near: dict[str, npt.NDArray[np.float32]]) -> list[str]:
    """Return what both gain over either, with intervals."""
    return [cell(mean_score(near[BOTH] - near[kind]), 3) for kind in (SPELLING, CONTEXTS)]


def calibration_cells(expected: npt.NDArray[np.float32], found: npt.NDArray[np.float32]) -> list[str]:
    """Return the mean expected and found cosine, and the largest error of tenths (and its mean, if all were chance)."""
    by_chance = np.mean(largest_by_chance(expected, found))
    return [f"{expected.mean():.3f}", f"{found.mean():.3f}", f"{tenths(expected, found):.3f} ({by_chance:.3f})"]


def largest_by_chance(expected: npt.NDArray[np.float32], found: npt.NDArray[np.float32]) -> list[float]:
    """Return the largest errors of tenths that a right confidence would have: its errors are drawn from those found.

    >>> bool(max(largest_by_chance(np.arange(100) / 100, np.arange(100) / 100 + 0.1)) < 1e-6)
    True
    """
    random, errors = np.random.default_rng(0), (found - expected)[np.argsort(expected, kind="stable")]
    parts = [part - part.mean() for part in np.array_split(errors, TENTHS)]
    return [max(abs(random.choice(part, part.size).mean()) for part in parts) for _ in range(DRAWS)]


def tenths(expected: npt.NDArray[np.float32], found: npt.NDArray[np.float32]) -> float:
    """Return the largest difference of the mean expected and found values of ten equal parts, by what is expected.

    >>> round(tenths(np.arange(20) / 20, np.arange(20) / 20 + np.where(np.arange(20) < 2, 0.1, 0)), 3)
    0.1
    """
    parts = np.array_split(np.argsort(expected, kind="stable"), TENTHS)
    return float(max(abs(expected[part].mean() - found[part].mean()) for part in parts))


def glove(folder: Path) -> Iterator[str]:
    """Yield the tables about hidden words of GloVe."""
    table = WordVectors.read(data.published("glove-6b-100d"), limit=SIZE, progress=False)
    yield from hidden_words("glove", table, novels(folder), published_matrix(table.dims))


def navec(_: Path) -> Iterator[str]:
    """Yield the tables about hidden words of Navec."""
    table = WordVectors.read(data.published("navec-hudlit"), limit=100_000, progress=False)
    corpora.make(["ru"])
    yield from hidden_words("navec", table, corpora.FOLDER / "ru.txt", None)


# Passages and definitions ---------------------------------------------------------------------------------------------


def chimeras(folder: Path) -> Iterator[str]:
    """Yield Spearman's rho of cosines with probes and people's ratings, mean over passages about a made-up word."""
    model, table = without_nonces(folder)
    matrix, body = published_matrix(table.dims), []
    for n in (2, 4, 6):
        rhos = []
        passages = blob(A_LA_CARTE, f"data-chimeras/dataset.l{n}.fixed.test.txt").decode("utf-8", "replace")
        for line in passages.splitlines():
            _, passage, probes, ratings = line.split("\t")
            rated = [(word, float(score)) for word, score in zip(probes.split(","), ratings.split(","), strict=True)]
            rated = [pair for pair in rated if pair[0] in table]
            true = table.vectors[[table.row_of[word] for word, _ in rated]]
            made = from_passage(model, table, NONCE, passage.split("@@"), matrix)
            del made[SPELLING], made[BOTH]
            near = {kind: cosines(np.tile(vector, (len(true), 1)), true) for kind, vector in made.items()}
            human = np.array([score for _, score in rated])
            rhos.append([spearman(values, human) for values in near.values()])
        found = np.array(rhos)
        columns = {kind: found[:, at] for at, kind in enumerate(near)}
        columns["contexts over A La Carte"] = columns[CONTEXTS] - columns[PUBLISHED]
        body.append([f"{n} sentences", str(len(rhos)), *(cell(mean_score(values), 1) for values in columns.values())])
    yield from table_lines(["passages of", "passages", *columns], body)


def nonces(folder: Path) -> Iterator[str]:
    """Yield the ranks of the true vectors of hidden words, among all words, by cosine with those from a definition."""
    model, table = without_nonces(folder)
    matrix, units = published_matrix(table.dims), unit_rows(table.vectors)
    asked = [(word, definition) for word, definition in definitions() if word in table]
    made = [from_passage(model, table, word, [definition], matrix) for word, definition in asked]
    ranks = {}
    for kind in made[0]:
        near = unit_rows(np.array([one[kind] for one in made])) @ units.T
        own = near[np.arange(len(asked)), [table.row_of[word] for word, _ in asked]]
        ranks[kind] = 1 + (near > own[:, None]).sum(axis=1)
    scores = {kind: mean_score(100 / found) for kind, found in ranks.items()}
    cosine = {kind: mean_cosine(table, asked, [one[kind] for one in made]) for kind in ranks}
    yield f"{len(asked)} of {len(definitions())} words; {len(table):,} candidates.\n"
    body = [[kind, f"{np.median(ranks[kind]):.0f}", cell(scores[kind], 2), f"{cosine[kind]:.3f}"] for kind in ranks]
    yield from table_lines(["", "median rank", "MRR x 100", "cosine"], body)


def mean_score(values: npt.NDArray[Any]) -> Score:
    """Return a mean with its interval."""
    return bootstrap(lambda drawn: {"mean": float(values[drawn].mean())}, len(values))["mean"]


def mean_cosine(table: WordVectors, asked: list[tuple[str, str]], vectors: list[Any]) -> float:
    """Return the mean cosine with the true vectors."""
    return float(cosines(np.array(vectors), table.vectors[[table.row_of[word] for word, _ in asked]]).mean())


def definitions() -> list[tuple[str, str]]:
    """Return the words of the definitional data and their definitions, in which a word is ___."""
    lines = blob(A_LA_CARTE, "data-nonces/n2v.definitional.dataset.test.txt").decode().splitlines()
    fields = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(word, definition) for word, definition in fields]


def without_nonces(folder: Path) -> tuple[Model, WordVectors]:
    """Return a model that has not seen the words of the definitional data, and the whole table."""
    table = WordVectors.read(data.published("glove-6b-100d"), limit=SIZE, progress=False)
    hidden = [word for word, _ in definitions()]
    return trained("glove-nonces", table, hidden, counted("glove", novels(folder))), table


def from_passage(
    model: Model, table: WordVectors, word: str, sentences: list[str], matrix: FloatMatrix
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the vectors of a word that is ___ in some sentences. A La Carte takes the whole passage, as published."""
    around = [one for sentence in sentences for one in sentence.split() if one in table and one != word]
    total = table.vectors[[table.row_of[one] for one in around]].sum(axis=0)
    filled = [sentence.replace("___", f" {word} ") for sentence in sentences if "___" in sentence]
    found = from_sentences(model, [word], {word: filled})
    made = {kind: vectors[0] for kind, vectors in found.vectors.items()}
    return made | {PUBLISHED: total @ matrix, PLAIN: total}


EXPERIMENTS: dict[str, Callable[[Path], Iterator[str]]] = {
    "glove": glove,
    "navec": navec,
    "biomedical": biomedical,
    "chimeras": chimeras,
    "nonces": nonces,
    "rare": rare,
    "cost": cost,
}
