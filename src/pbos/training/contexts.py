"""Vectors from contexts: those of all words of a text, and the map that turns contexts into vectors."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.contexts import AMOUNTS, KINDS, ContextMap, Expected, Mixed, best_mixture, facts_of
from pbos.corpus.cooccurrences import Cooccurrences, row_ranges
from pbos.errors import InputError
from pbos.jobs.threads import blocks, in_threads, one_blas_thread
from pbos.kernels.vectors import compose
from pbos.model import Model
from pbos.training.system import HeldOut
from pbos.words.arrays import FloatMatrix, cosines, projected, unit_rows
from pbos.words.confidence import Regression, fitted_curve
from pbos.words.text import normalize, pack_strings
from pbos.words.tokens import CUTS, form_of

MOST_CONTEXTS = 200_000  # the most frequent words of a text are contexts, so that their vectors fit in memory
LEAST_COUNT = 5  # of a word that the map is fitted to
MOST_WORDS = 20_000  # that the map is fitted to
LEAST_WORDS = 100
LAM = 0.003  # the ridge penalty, as a share of the mean square of a feature
NOISY_COUNT = 10  # a word this frequent counts half
OFTEN = 20  # occurrences of a held-out word, some of which stand for sentences
LEAST_HELD_OUT = 30  # so frequent words; with fewer, all held-out words are used
LEAST_FOR_CURVE = 250  # held-out words
Places = npt.NDArray[np.int64]


class TextContexts:
    """The contexts of the words of a text, for a model: from co-occurrences and the vectors of the most frequent words.

    Attributes:
        counted: The co-occurrences.
        rows: The row of each word of the text among the training words, -1 for others.
    """

    def __init__(self, counted: Cooccurrences, model: Model, threads: int | None = None) -> None:
        self.counted, self.threads = counted, threads
        known = model.subwords.word_rows
        self.rows = np.array([known.get(word, -1) for word in model.subwords.read(counted.words)], np.int64)
        contexts = np.sort(np.argsort(-counted.counts, kind="stable")[:MOST_CONTEXTS])
        self._vectors = model.embed(counted.words_at(contexts), threads=threads)
        self._numbers = np.full(len(counted), -1, np.int32)
        self._numbers[contexts] = np.arange(contexts.size)

    def features(self, places: Places, left: int | None = None) -> FloatMatrix:
        """Return the mean vectors of near, next and previous words of some words: (n, 3 * dims).

        With `left`, only about so many occurrences of each word count, drawn at random. Then a near word
        counts as often as it occurred at least: words of one sentence tell less than as many of different ones.
        """
        places, back = np.unique(places, return_inverse=True)
        dims = self._vectors.shape[1]
        out = np.zeros((places.size, KINDS, dims), np.float32)

        def write(rows: slice) -> None:
            some = slice(*np.searchsorted(places, (rows.start, rows.stop)))
            if some.start == some.stop:
                return
            indptr, columns, counts = self.counted.rows(rows)
            sizes = np.diff(indptr)
            chosen = np.zeros(sizes.size, np.bool_)
            chosen[places[some] - rows.start] = True
            entries = np.repeat(chosen, sizes)
            row = np.repeat(np.cumsum(chosen) - 1, sizes)[entries]
            kinds, words = np.divmod(columns[entries].astype(np.int64), len(self.counted))
            weights = counts[entries].astype(np.float32)
            if left is not None:
                share = np.minimum(left / self.counted.counts[places[some]], 1)
                unit = np.where(kinds == 0, self.counted.counting.window, 1)
                rng = np.random.default_rng((left, rows.start))
                weights = (rng.binomial(np.ceil(weights / unit).astype(np.int64), share[row]) * unit).astype(np.float32)
            numbers = self._numbers[words]
            for kind in range(KINDS):
                is_one = (kinds == kind) & (numbers >= 0) & (weights > 0)
                n_entries = np.bincount(row[is_one], minlength=some.stop - some.start)
                data = weights[is_one] / np.bincount(row[is_one], weights[is_one], n_entries.size)[row[is_one]]
                starts = np.concatenate([[0], np.cumsum(n_entries)])
                found = np.empty((n_entries.size, dims), np.float32)
                compose(starts, numbers[is_one], data.astype(np.float32), self._vectors, found)
                out[some, kind] = found

        in_threads(write, row_ranges(self.counted.indptr), self.threads)
        return out.reshape(places.size, KINDS * dims)[back]


def words_in(counted: Cooccurrences, words: list[str], form: str) -> Places:
    """Return the places of the words of a table that a text has, before a model is trained; InputError if too few."""
    frequent = {*normalize(counted.words_at(np.flatnonzero(counted.counts >= LEAST_COUNT)), form)}
    found = np.array([place for place, word in enumerate(words) if word in frequent], np.int64)
    if found.size < LEAST_WORDS:
        raise InputError(
            f"only {found.size} words of the table occur {LEAST_COUNT} times in the text, and contexts need "
            f"{LEAST_WORDS} of them; use more text, or text in the language of the table"
        )
    return found


def with_contexts(model: Model, text: TextContexts, targets: Any, held: HeldOut | None, seed: int) -> Model:
    """Return a model that can use contexts, as it learns from a text that has words of its table."""
    assert held is not None
    kept = copy.copy(model)
    kept._contexts = fit_map(text, targets, held, seed)
    return kept


def fit_map(text: TextContexts, targets: Any, held: HeldOut, seed: int) -> ContextMap:
    """Fit the map from contexts to vectors to words of a text that have given vectors, by ridge regression."""
    counted, rng = text.counted, np.random.default_rng(seed)
    counts, counting = counted.counts, counted.counting
    places = np.flatnonzero((text.rows >= 0) & ~np.isin(text.rows, held.rows) & (counts >= LEAST_COUNT))
    places = np.sort(rng.choice(places, min(places.size, MOST_WORDS), replace=False))
    given, shares = np.asarray(targets[text.rows[places]], np.float32), counts[places] / (counts[places] + NOISY_COUNT)
    matrix = fit_matrix(text.features(places), given, shares).astype(np.float16)
    stays = counting.stays(counts, int(counts.sum()))
    frequent = np.flatnonzero(stays < 1)
    cut = "spaces" if counting.cut == "tokens" else counting.cut  # as sentences are strings
    return ContextMap(
        matrix,
        tuple(fit_expected(text, targets, held, matrix, amount) for amount in (*AMOUNTS, None)),
        pack_strings(counted.words_at(frequent)),
        stays[frequent].astype(np.float32),
        np.array([counting.window, counting.lowercase, CUTS.index(cut)], np.int64),
    )


def fit_matrix(features: FloatMatrix, given: FloatMatrix, shares: npt.NDArray[Any]) -> FloatMatrix:
    """Return the matrix that turns features into given vectors; words count by their shares."""
    weighted = (features * shares[:, None]).astype(np.float32)
    normal = (weighted.T @ features).astype(np.float64)
    penalty = max(LAM * np.trace(normal) / len(normal), 1e-30)  # above 0, even if all vectors are zeros
    normal += penalty * np.eye(len(normal))
    return np.linalg.solve(normal, (weighted.T @ given).astype(np.float64)).astype(np.float32)


def fit_expected(
    text: TextContexts, targets: Any, held: HeldOut, matrix: npt.NDArray[np.float16], left: int | None
) -> Expected:
    """Learn from held-out words what is expected of them if so many of their occurrences are left, or all."""
    places = np.flatnonzero(np.isin(text.rows, held.rows))
    often = places[text.counted.counts[places] >= OFTEN]
    if left is not None and often.size >= LEAST_HELD_OUT:
        places = often
    rows, counts = text.rows[places], text.counted.counts[places]
    known = np.searchsorted(held.rows, rows)
    spelling, trust = unit_rows(held.vectors[known]), held.confidence[known]
    given = unit_rows(projected(np.asarray(targets[rows], np.float32), held.directions))
    vectors = text.features(places, left) @ matrix.astype(np.float32)
    contexts = unit_rows(projected(vectors, held.directions))
    in_common = np.einsum("ij,ij->i", spelling, contexts)
    facts = facts_of(trust, in_common, vectors, counts if left is None else np.full(counts.size, left))
    found = Expected(*(Regression.fit(facts, cosines(one, given)) for one in (spelling, contexts)))
    one, other, expected = best_mixture(*found.cosines(facts), in_common)
    mixed = cosines(one[:, None] * spelling + other[:, None] * contexts, given)
    if places.size < LEAST_FOR_CURVE or np.ptp(expected) < 0.01:
        return found
    curve = fitted_curve(expected.astype(np.float64), mixed.astype(np.float64))
    return found._replace(of_contexts=replace(found.of_contexts, curve=curve))


def mixed_words(model: Model, counted: Cooccurrences, words: list[str], threads: int | None) -> Mixed:
    """Return the vectors of words from their spelling and, where they occur in a text, from their contexts there."""
    assert model._contexts is not None
    known = {word: place for place, word in enumerate(counted.words)}
    places = np.array([known.get(word, -1) for word in normalize(words, form_of(counted.counting.lowercase))], np.int64)
    places[model._are_known(words)] = -1
    composed, trust = model.embed(words, threads=threads), model.confidence(words, threads=threads)
    text = TextContexts(counted, model, threads)
    seen = np.flatnonzero(places >= 0)
    seen = seen[np.argsort(places[seen], kind="stable")]
    found = Mixed(composed, trust, np.zeros(len(words), np.float32))
    for block in blocks(seen.size, MOST_WORDS):
        some = seen[block]
        features, n_times = text.features(places[some]), counted.counts[places[some]]
        with one_blas_thread():  # with more, sums would be rounded in another way
            mixed = model._contexts.mix(composed[some], trust[some], features, n_times, in_text=True)
        for whole, part in zip(found, mixed, strict=True):
            whole[some] = part
    return found
