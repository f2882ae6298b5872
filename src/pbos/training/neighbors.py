"""Spelling neighbors are learned from training words, each composed by a model that has not seen it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.jobs.threads import blocks
from pbos.kernels.neighbors import FACTS, MOST_EXPONENT, TINY, squared_lengths
from pbos.model import Model
from pbos.training.fit import SCORE_SHARE, Vector, mean_and_scale, reliabilities, row_cosines
from pbos.words.arrays import FloatMatrix, rows_of, unit_rows
from pbos.words.confidence import Regression, fitted_curve
from pbos.words.neighbors import SpellingNeighbors
from pbos.words.text import encode

LEAST_WORDS = 2000  # of a table: with three quarters of fewer words, models have no confidence
FOLDS = 4  # parts of the table; a model of the others composes the words of one
MOST_ASKED = 40_000  # words to learn from
MOST_POSTED = 400  # words that have a subword; one that more have says little
LEAST_RULE = 40  # times that a rule occurs, to get a number of its own
UNITS = 16
EPOCHS, BATCH, RATE = 6, 256, 0.01  # of Adam; in an epoch, as many words are drawn as there are
START = -3.0  # the logarithm of how much a neighbor counts, before training
Ints = npt.NDArray[np.int64]


def with_neighbors(
    model: Model, targets: FloatMatrix, counts: Vector, train_on: Callable[[Ints, bool], Model], most: int
) -> Model:
    """Return a model with spelling neighbors; `train_on` trains one on some rows, with a confidence or without.

    Half of the score is the mean over all words, half one in which frequent words count more, as in `choose`.
    """
    rng, n_words = np.random.default_rng(0), len(model)
    mean, _ = mean_and_scale(targets, np.arange(n_words), None)
    squares = sum(float(np.square(rows_of(targets, rows) - mean).sum(dtype=np.float64)) for rows in blocks(n_words))
    scale = np.array([np.sqrt(squares / n_words) or 1.0], np.float32)
    trust = reliabilities(counts, SCORE_SHARE)
    parts = np.ones(n_words) if trust is None else (1 + trust) / 2
    lessons: list[tuple[Any, ...]] = []
    left = MOST_ASKED
    for hidden in np.array_split(rng.permutation(n_words), FOLDS):
        kept, asked = np.setdiff1d(np.arange(n_words), hidden), np.sort(hidden[:left])
        part = train_on(kept, not lessons)
        near = unfitted(part, rows_of(targets, kept), mean, scale, most)
        words, given = [model.words[row] for row in asked.tolist()], rows_of(targets, asked)
        if not lessons:
            first = part, near, words, given
        lessons.append((parts[asked], *lesson(part, near, words, (given - mean) / scale)))
        left -= asked.size
        if not left:
            break
    layer = fitted(lessons, rng)
    found = copy.copy(model)
    found._near = replace(unfitted(model, targets, mean, scale, most), **layer, **confidence(*first, layer))
    return found


def unfitted(model: Model, targets: FloatMatrix, mean: FloatMatrix, scale: FloatMatrix, most: int) -> SpellingNeighbors:
    """Return the neighbors of a model's training words, without the layer that says how much they count."""
    subwords, codes, empty = model.subwords, encode(model.words, model.spelling), np.zeros(0, np.float32)
    weights = subwords.weights_of_codes(codes).merged()
    n_posted = np.bincount(weights.indices, minlength=weights.n_columns)
    tells = n_posted[weights.indices] <= MOST_POSTED
    columns, words = weights.indices[tells], np.repeat(np.arange(len(model)), np.diff(weights.indptr))[tells]
    indptr = np.concatenate([[0], np.cumsum(np.where(n_posted <= MOST_POSTED, n_posted, 0))])
    posted = words[np.argsort(columns, kind="stable")].astype(np.uint32)
    lengths = np.sqrt(squared_lengths(*subwords._walk, *codes, indptr))
    vectors = np.empty((len(model), 2 * model.dims), np.float16)
    for rows in blocks(len(model)):
        given = rows_of(targets, rows)
        composed = np.empty(given.shape, np.float32)
        subwords.embed(model.words[rows], model.subword_vectors, composed)
        vectors[rows] = np.concatenate([given - mean, given - composed], axis=1) / scale
    parts = np.array([most]), indptr, posted, lengths, vectors, mean, scale, np.zeros(0, np.int64), empty
    layer = np.zeros((0, FACTS + 2), np.float32), np.zeros((2, 1), np.float32)
    return SpellingNeighbors(*parts, *layer, *[empty] * 4)


def lesson(model: Model, near: SpellingNeighbors, words: list[str], given: FloatMatrix) -> tuple[Any, ...]:
    """Return what to learn from words that a model has not seen: the neighbors' facts and rules, and products.

    See `gradients`; `given` are the true vectors, as `near` stores vectors.
    """
    subwords, composed = model.subwords, model.embed(words)
    found, _, facts, rules = near.add_to(subwords, subwords.read(words), composed.copy())
    size, dims = 1 + 2 * found.shape[1], given.shape[1]
    products, aims = np.empty((len(words), size, size), np.float32), np.empty((len(words), size), np.float32)
    for rows in blocks(len(words), 1000):
        others = near.vectors[found[rows]].astype(np.float32) * (found[rows] >= 0)[..., None]
        own = ((composed[rows] - near.mean) / near.scale)[:, None]
        vectors = np.concatenate([own, others[..., :dims], others[..., dims:]], axis=1)
        products[rows] = vectors @ vectors.transpose(0, 2, 1)
        aims[rows] = np.einsum("nij,nj->ni", vectors, unit_rows(given[rows]))
    return (found >= 0).sum(axis=1), facts, rules, products, aims


def fitted(lessons: list[tuple[Any, ...]], rng: np.random.Generator) -> dict[str, Any]:
    """Return the rules and the layer for which the cosines of words with their true vectors are highest, by Adam."""
    parts, sizes, facts, rules, products, aims = map(np.concatenate, zip(*lessons, strict=True))
    exists = np.arange(facts.shape[1]) < sizes[:, None]
    frequent, times = np.unique(rules[exists & (rules != 0)], return_counts=True)
    frequent = frequent[times >= LEAST_RULE]
    places = np.searchsorted(frequent, rules).clip(max=max(frequent.size - 1, 0))
    places = np.where(np.isin(rules, frequent), places, -1)
    center, spread = facts[exists].mean(axis=0), facts[exists].std(axis=0) + np.float32(1e-6)
    facts = (facts - center) / spread
    hidden = (rng.standard_normal((UNITS, FACTS + 2)) / np.sqrt(FACTS)).astype(np.float32)
    hidden[:, -1] = 0
    output = np.zeros((2, UNITS + 1), np.float32)
    output[0, -1] = START
    numbers = (0.1 * rng.standard_normal(frequent.size)).astype(np.float32)
    layer = [hidden, output, numbers]
    means, squares = ([np.zeros_like(one) for one in layer] for _ in range(2))
    n_steps = -(-EPOCHS * sizes.size // BATCH)
    for step in range(1, n_steps + 1):
        chosen = rng.choice(sizes.size, BATCH, p=parts / parts.sum())
        _, found = gradients(layer, *(array[chosen] for array in (sizes, facts, places, products, aims)))
        for one, gradient, mean, square in zip(layer, found, means, squares, strict=True):
            gradient /= BATCH
            mean += 0.1 * (gradient - mean)
            square += 0.01 * (gradient**2 - square)
            rate = RATE * (1 - step / (n_steps + 1)) / (1 - 0.9**step)
            one -= rate * mean / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    hidden[:, :FACTS] /= spread
    hidden[:, -1] -= hidden[:, :FACTS] @ center
    return {"rules": frequent, "numbers": numbers, "hidden": hidden, "output": output}


def gradients(
    layer: list[FloatMatrix], sizes: Ints, facts: FloatMatrix, places: Ints, products: FloatMatrix, aims: FloatMatrix
) -> tuple[FloatMatrix, list[FloatMatrix]]:
    """Return the cosines of words with their true vectors, and the gradients of minus their sum.

    A vector is a sum over 1 + 2 n given ones: the composed vector, those of n neighbors, and the parts that are their
    own. `products` are those of any two of them, `aims` those with the true vector, which has length 1. `places` are
    those of rules, -1 for none.
    """
    hidden, output, numbers = layer
    n, one = facts.shape[1], np.ones((*places.shape, 1), np.float32)
    inputs = np.concatenate([facts, np.append(numbers, np.float32(0))[places][..., None], one], axis=2)
    units = np.concatenate([np.tanh(inputs @ hidden.T), one], axis=2)
    first, owns = np.moveaxis(units @ output.T, 2, 0)
    counts = np.exp(np.minimum(first, MOST_EXPONENT)) * (np.arange(n) < sizes[:, None])
    shares = np.concatenate([one[:, 0], counts, counts * owns], axis=1)
    sums = (products @ shares[..., None])[..., 0]
    squares = np.maximum((sums * shares).sum(axis=1), TINY)[:, None]
    cosines = (aims * shares).sum(axis=1) / np.sqrt(squares[:, 0])
    slopes = cosines[:, None] * sums / squares - aims / np.sqrt(squares)
    of_counts, of_owns = slopes[:, 1 : 1 + n], slopes[:, 1 + n :]
    of_results = np.stack([counts * (of_counts + owns * of_owns), counts * of_owns], axis=2)
    of_units = (of_results @ output * (1 - units**2))[..., :-1]
    to_hidden = of_units.reshape(-1, of_units.shape[2]).T @ inputs.reshape(-1, inputs.shape[2])
    to_output = of_results.reshape(-1, 2).T @ units.reshape(-1, units.shape[2])
    to_numbers = np.bincount(places.ravel() + 1, (of_units @ hidden[:, -2]).ravel(), numbers.size + 1)[1:]
    return cosines, [to_hidden, to_output, to_numbers.astype(np.float32)]


def confidence(
    model: Model, near: SpellingNeighbors, words: list[str], given: FloatMatrix, layer: dict[str, Any]
) -> dict[str, Any]:
    """Return the regression of what neighbors add to a confidence, fitted to words that a model has not seen."""
    found, trust, read = model.embed(words), model.confidence(words), model.subwords.read(words)
    facts = replace(near, **layer).trust_facts(model.subwords, read, found, trust)
    true = row_cosines(found, given)
    regression = Regression.fit(facts, true - trust)
    curve = fitted_curve((trust + regression.score(facts)).clip(0, 1), true)
    regression = replace(regression, curve=curve)
    return {one.name: getattr(regression, one.name) for one in fields(Regression)}
