"""Vectors from contexts: those of all words of a text, and the map that turns contexts into vectors."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.contexts import KINDS, MIXTURE_FACTS, ContextMap, Mixed, best_mixture, context_facts, mixture_facts
from pbos.corpus.cooccurrences import Cooccurrences, row_ranges
from pbos.errors import InputError
from pbos.jobs.threads import blocks, in_threads, one_blas_thread
from pbos.kernels.vectors import compose
from pbos.model import Model
from pbos.training.system import HeldOut
from pbos.words.arrays import FloatMatrix, cosines, projected, unit_rows
from pbos.words.confidence import LEAST_FOR_CURVE, Regression, fitted_curve
from pbos.words.text import normalize, pack_strings
from pbos.words.tokens import CUTS, form_of

MOST_CONTEXTS = 200_000  # the most frequent words of a text are contexts, so that their vectors fit in memory
LEAST_COUNT = 5  # of a word that the map is fitted to
MOST_WORDS = 20_000  # that the map is fitted to
LEAST_WORDS = 100
LAM = 0.003  # the ridge penalty, as a share of the mean square of a feature
NOISY_COUNT = 10  # a word this frequent counts half
FEWER = (1, 4, 16, 64, None)  # occurrences that are left of a word, to learn what few tell; None for all
FEW_AND_ALL = (1, 4, 16, None)  # of a held-out word
SPARE = 4  # times as many occurrences has a word at least from which some are taken
NEIGHBOR = 3  # what a near word adds to the counts on average
LEAST_HELD_OUT = 30  # words, to correct expectations
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

        With `left`, only about so many occurrences of each word count, drawn at random.
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
                unit = np.where(kinds == 0, NEIGHBOR, 1)
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


def check_words(counted: Cooccurrences, words: list[str], form: str) -> None:
    """Raise InputError, before a model is trained, if a text has too few of its words to fit the map to."""
    frequent = normalize(counted.words_at(np.flatnonzero(counted.counts >= LEAST_COUNT)), form)
    n_words = len(set(words).intersection(frequent))
    if n_words < LEAST_WORDS:
        raise InputError(
            f"only {n_words} words of the table occur {LEAST_COUNT} times in the text, and contexts need "
            f"{LEAST_WORDS} of them; use more text, or text in the language of the table"
        )


def with_contexts(model: Model, text: TextContexts, targets: Any, held: HeldOut | None, seed: int) -> Model:
    """Return a model that can use contexts, as it learns from a text that has words of its table."""
    assert held is not None
    kept = copy.copy(model)
    kept._contexts = with_corrections(fit_map(text, targets, held, seed), text, targets, held)
    return kept


def fit_map(text: TextContexts, targets: Any, held: HeldOut, seed: int) -> ContextMap:
    """Fit the map from contexts to vectors to words of a text that have given vectors.

    It is a ridge regression. How good the vectors are that it yields is learned from those of each half of the words
    with the map of the other half.
    """
    counted, rng = text.counted, np.random.default_rng(seed)
    counts, counting = counted.counts, counted.counting
    places = np.flatnonzero((text.rows >= 0) & ~np.isin(text.rows, held.rows) & (counts >= LEAST_COUNT))
    places = np.sort(rng.choice(places, min(places.size, MOST_WORDS), replace=False))
    features, given = text.features(places), np.asarray(targets[text.rows[places]], np.float32)
    shares, half = counts[places] / (counts[places] + NOISY_COUNT), rng.random(places.size) < 0.5
    mean = unit_rows(given.mean(axis=0, keepdims=True))[0]
    maps = [fit_matrix(features[some], given[some], shares[some]) for some in (half, ~half)]
    facts, found = [], []
    for left in FEWER:
        some, n_times = fewer(counts[places], left)
        features_left = features[some] if left is None else text.features(places[some], left)
        vectors = np.where(half[some, None], features_left @ maps[1], features_left @ maps[0])
        facts.append(context_facts(vectors, n_times, mean))
        found.append(cosines(vectors, given[some]))
    stays = counting.stays(counts, int(counts.sum()))
    frequent = np.flatnonzero(stays < 1)
    cut = "spaces" if counting.cut == "tokens" else counting.cut  # as sentences are strings
    return ContextMap(
        fit_matrix(features, given, shares).astype(np.float16),
        mean,
        Regression.fit(np.concatenate(facts), np.concatenate(found)),
        Regression.none(MIXTURE_FACTS),
        Regression.none(MIXTURE_FACTS),
        pack_strings(counted.words_at(frequent)),
        stays[frequent].astype(np.float32),
        np.array([counting.window, counting.lowercase, CUTS.index(cut)], np.int64),
    )


def fewer(counts: npt.NDArray[np.int64], left: int | None) -> tuple[Places, npt.NDArray[np.int64]]:
    """Return which words occur often enough to leave only some of their occurrences, and how many each then has."""
    if left is None:
        return np.arange(counts.size), counts
    some = np.flatnonzero(counts >= SPARE * max(left, 2))
    return some, np.full(some.size, left)


def fit_matrix(features: FloatMatrix, given: FloatMatrix, shares: npt.NDArray[Any]) -> FloatMatrix:
    """Return the matrix that turns features into given vectors; words count by their shares."""
    weighted = (features * shares[:, None]).astype(np.float32)
    normal = (weighted.T @ features).astype(np.float64)
    penalty = max(LAM * np.trace(normal) / len(normal), 1e-30)  # above 0, even if all vectors are zeros
    normal += penalty * np.eye(len(normal))
    return np.linalg.solve(normal, (weighted.T @ given).astype(np.float64)).astype(np.float32)


def with_corrections(contexts: ContextMap, text: TextContexts, targets: Any, held: HeldOut) -> ContextMap:
    """Return a map that corrects what it expects of spelling and contexts, as held-out words in the text tell."""
    places = np.flatnonzero(np.isin(text.rows, held.rows))
    if places.size < LEAST_HELD_OUT:
        return contexts
    rows = text.rows[places]
    known = np.searchsorted(held.rows, rows)
    spelling, trust = unit_rows(held.vectors[known]), held.confidence[known]
    given = projected(np.asarray(targets[rows], np.float32), held.directions)
    parts: list[tuple[Any, ...]] = []
    for left in FEW_AND_ALL:
        some, n_times = fewer(text.counted.counts[places], left)
        vectors = contexts.applied(text.features(places[some], left))
        seen = unit_rows(projected(vectors, held.directions))
        in_common = np.einsum("ij,ij->i", spelling[some], seen)
        facts = mixture_facts(trust[some], contexts.expectations(vectors, n_times), in_common, n_times)
        parts.append((facts, spelling[some], seen, given[some]))
    facts, spelling, seen, given = (np.concatenate(part) for part in zip(*parts, strict=True))
    corrected = replace(
        contexts,
        of_spelling=Regression.fit(facts, cosines(spelling, given) - facts[:, 0]),
        of_contexts=Regression.fit(facts, cosines(seen, given) - facts[:, 1]),
    )
    if len(facts) < LEAST_FOR_CURVE:
        return corrected
    one, other, expected = best_mixture(*corrected.corrected(facts), facts[:, 2])
    found = cosines(one[:, None] * spelling + other[:, None] * seen, given)
    curve = fitted_curve(expected.astype(np.float64), found.astype(np.float64))
    return replace(corrected, of_contexts=replace(corrected.of_contexts, curve=curve))


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
            mixed = model._contexts.mix(composed[some], trust[some], features, n_times)
        for whole, part in zip(found, mixed, strict=True):
            whole[some] = part
    return found
