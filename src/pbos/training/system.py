"""From words, weights and given vectors to subword vectors, and to how much they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import blocks
from pbos.jobs.workspace import Workspace
from pbos.kernels import columns
from pbos.settings import Spelling
from pbos.training.confidence import mean_and_scale, subword_evidence
from pbos.training.solve import Ridge, Solution, WholeWordShare, sgd
from pbos.training.tune import LAMS, SHARES, Choice, Run, Words, choose, reliabilities, row_cosines, split
from pbos.words.arrays import FloatMatrix, projected, projection, rows_of
from pbos.words.confidence import Confidence
from pbos.words.index import SubwordIndex
from pbos.words.subwords import Subwords
from pbos.words.text import LEFT, RIGHT, Codes, PackedStrings, pack_strings
from pbos.words.vectors import SubwordVectors
from pbos.words.weights import Weights, columns_of_same_words, joined

LEAST_HELD_OUT = 100  # words, to fit a confidence to
LEAST_RANKED = 20_000  # words; with fewer, all are needed, and count the same
CALIBRATION_DIMS = 100  # enough for the cosines that the confidence is fitted to
MANY = 1_000_000  # words; with more, fewer dimensions do
FEWER_DIMS = 32
PART = 1 << 17  # words whose weights are computed together, at most
SMALL_PART = 4096


@dataclass(frozen=True)
class System:
    """The equations words = weights @ vectors, and where they come from."""

    index: SubwordIndex
    words: list[str]
    weights: Weights
    penalty: npt.NDArray[np.float64]  # of each vector
    whole: npt.NDArray[np.int64]  # the column that each word has as a whole, -1 if none
    targets: FloatMatrix
    counts: npt.NDArray[np.float64]  # how often each word occurs


def make_system(
    index: SubwordIndex,
    words: list[str],
    codes: Codes,
    targets: FloatMatrix,
    counts: npt.NDArray[np.float64],
    run: Run,
) -> System:
    """Return the weights of the training words, and the penalty of each subword vector.

    A subword that weighs more because of its position costs more in proportion, so that all vectors are equally likely
    to be large. Subwords merged into one vector cost the sum. Whole words are not merged: `Own` sets their vectors.
    """
    size = min(max(SMALL_PART, len(words) // (8 * run.pool.size)), PART)
    subwords = Subwords(SubwordIndex(run.work.keep_all("index", index.arrays)), run.preset)
    weigh = partial(weigh_words, subwords, codes, not isinstance(run.preset.own_share, str), run.work)
    weighed = run.pool.map("weigh-words", weigh, blocks(len(words), size))
    parts, whole = [part for part, _ in weighed], np.concatenate([whole for _, whole in weighed])
    rows = index.rows
    with_vector = np.flatnonzero(rows >= 0)
    if run.preset.merge:
        numbers = columns_of_same_words(parts, whole[whole >= 0])
        rows[with_vector] = numbers[rows[with_vector]]
        whole = np.where(whole >= 0, numbers[whole], -1)
        index = index.with_rows(rows)
        merge = partial(merge_columns, run.work.keep("numbers", numbers), run.work)
        merged = run.pool.map("merge-subwords", merge, list(enumerate(parts)))
        for part in parts:
            part.forget(run.work)
        parts = merged
    weights = joined(parts, run.work)
    penalty = np.zeros(weights.n_columns)
    np.add.at(penalty, rows[with_vector], position_factors(index, run.preset)[with_vector])
    return System(index, words, weights, penalty, whole, targets, counts)


def weigh_words(
    subwords: Subwords, codes: Codes, own: bool, work: Workspace, some: slice
) -> tuple[Weights, npt.NDArray[np.int64]]:
    """Return the weights of some words and, if `own`, the column that each has as a whole; -1 for none."""
    words = codes.part(some.start, some.stop)
    weights = subwords.weights_of_codes(words, threads=1).merged()
    whole = subwords.rows_of_whole_words(words) if own else np.full(len(weights), -1)
    return weights.kept(f"part-{some.start}", work), whole


def merge_columns(numbers: npt.NDArray[np.int32], work: Workspace, part: tuple[int, Weights]) -> Weights:
    """Return weights with other numbers for their columns."""
    at, weights = part
    return weights.renumbered(numbers).kept(f"merged-{at}", work)


def position_factors(index: SubwordIndex, spelling: Spelling) -> npt.NDArray[np.float64]:
    """Return for each node how much more it weighs because it starts or ends with a mark."""
    if spelling.start_weight == spelling.end_weight == 1:
        return np.ones(len(index) + 1)
    first = index.parents()  # becomes the node of the first character, by pointer jumping
    characters = slice(index.alphabet.size + 1)
    first[characters] = np.arange(index.alphabet.size + 1)
    while not np.array_equal(first, further := first[first]):
        first = further
    last = index.code_points
    starts = np.where(last[first] == ord(LEFT), spelling.start_weight, 1.0)
    return starts * np.where(last == ord(RIGHT), spelling.end_weight, 1.0)


def solve(system: System, run: Run) -> tuple[Solution, Confidence | None]:
    """Find the subword vectors with the preset's solver, and their confidence if the preset asks for it."""
    recipe = run.preset
    choice, confidence = (None, None) if recipe.solver == "sgd" else tune(system, run)
    with progress_bar("training", system.targets.shape[1], run.progress) as advance:
        options: dict[str, Any] = {"pool": run.pool, "work": run.work, "on_slice": advance}
        if choice is None:
            options |= {"epochs": recipe.epochs, "lr": recipe.lr, "seed": run.seed, "unit_length": recipe.unit_length}
            return sgd(system.weights, system.targets, **options), None
        reliability = reliabilities(system.counts, choice.share)
        own = None if isinstance(recipe.own_share, str) else WholeWordShare(system.whole, recipe.own_share)
        options |= {"own": own, "device": run.device}
        ridge = Ridge(system.weights, system.penalty, reliability, work=run.work)
        solution = ridge.solve(system.targets, choice.lam, **options)
    solution.report["reliability"] = "even" if choice.share is None else round(choice.share, 4)
    if choice.scores:
        solution.report["tried"] = choice.scores
    if confidence is not None:  # it was fitted in a projection
        mean, scale = mean_and_scale(system.targets, np.arange(len(system.words)), reliability)
        confidence = replace(confidence, mean=mean, scale=np.array([scale], np.float32))
    return solution, confidence


# -- held-out words ----------------------------------------------------------------------------------------------------


def tune(system: System, run: Run) -> tuple[Choice, Confidence | None]:
    """Choose lam and reliability on held-out words, and fit the confidence to them."""

    def compute() -> dict[str, Any]:
        choice, confidence = tune_now(system, run)
        return {"choice": list(choice), **({} if confidence is None else confidence.tensors())}

    found = run.work.step("tuned", compute)
    return Choice(*found["choice"]), Confidence.of_tensors(found)


def tune_now(system: System, run: Run) -> tuple[Choice, Confidence | None]:
    """Do what `tune` does."""
    recipe = run.preset
    lams = LAMS if isinstance(recipe.lam, str) else (recipe.lam,)
    shares: tuple[float | None, ...] = (None,)
    if recipe.reliability == "auto" and len(system.words) >= LEAST_RANKED:
        shares = (None, *SHARES)
    elif not isinstance(recipe.reliability, str):
        shares = (recipe.reliability,)
    if len(lams) == len(shares) == 1 and not recipe.confidence:
        return Choice(lams[0], shares[0], {}), None
    hidden = split(len(system.words), run.seed)
    kept = Words(system.weights, system.targets, system.counts, np.flatnonzero(~hidden))
    rows = np.flatnonzero(hidden)
    words = [system.words[row] for row in rows]
    index, packed = without_heldout(system, kept.rows)
    weights = Subwords(index, recipe, None, packed).weights(words, run.threads)
    held_out = Words(weights, rows_of(system.targets, rows), system.counts[rows])
    with progress_bar("choosing lam", None, run.progress) as advance:

        def on_try(name: str, score: float) -> None:
            advance(1, note=f"lam {name}, cosine {score:.4f}")

        choice = choose(kept, held_out, system.penalty, run, lams=lams, shares=shares, on_try=on_try)
        if not recipe.confidence or rows.size < LEAST_HELD_OUT:
            return choice, None
        return choice, calibrate(kept, system.penalty, index, packed, words, held_out, choice, run)


def without_heldout(system: System, kept: npt.NDArray[np.int64]) -> tuple[SubwordIndex, PackedStrings]:
    """Return some of the words and their subwords: those that only other words have lose their vectors."""
    weights = system.weights
    seen = columns.count_rows(weights.indptr, weights.indices, weights.data, kept, weights.n_columns) > 0
    rows = system.index.rows
    index = system.index.with_rows(np.where((rows >= 0) & seen[rows], rows, np.int32(-1)))
    return index, pack_strings([system.words[row] for row in kept])


def calibrate(
    kept: Words,
    penalty: npt.NDArray[np.float64],
    index: SubwordIndex,
    packed: PackedStrings,
    words: list[str],
    held_out: Words,
    choice: Choice,
    run: Run,
) -> Confidence:
    """Fit a confidence to the cosines of held-out words, as a model of the other words composes them."""
    dims = CALIBRATION_DIMS if len(kept.rows) <= MANY else FEWER_DIMS
    directions = projection(held_out.targets.shape[1], dims, run.seed)
    kept = kept._replace(targets=run.work.keep("calibration.targets", projected(kept.targets, directions)))
    reliability = kept.reliabilities(choice.share)
    ridge = Ridge(kept.weights, penalty, reliability, kept.some, run.work)
    work = run.work.inner("calibration")
    options: dict[str, Any] = {"pool": run.pool, "device": run.device, "work": work}
    found = ridge.solve(kept.targets, choice.lam, **options).vectors
    vectors = found if isinstance(found, np.ndarray) else found.joined(work)
    evidence = subword_evidence(kept, vectors, choice.lam, penalty, reliability, run)
    stored = SubwordVectors.of(vectors)
    subwords = Subwords(index, run.preset, stored.lengths, packed)
    features = subwords.features(subwords.read(words), stored, evidence)
    composed = held_out.weights.composed(vectors)
    return evidence.fitted(features, row_cosines(composed, projected(held_out.targets, directions)))
