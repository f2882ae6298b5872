"""From words, weights and given vectors to subword vectors, and to how much they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.arrays import FloatMatrix
from pbos.confidence import Confidence
from pbos.evidence import BLOCK, in_full_space, shared_words, unfitted
from pbos.index import SubwordIndex
from pbos.progress import progress as progress_bar
from pbos.settings import Preset, Spelling
from pbos.solvers import Ridge, Solution, sgd
from pbos.subword_vectors import SubwordVectors
from pbos.subwords import Subwords
from pbos.text import LEFT, RIGHT, Codes, pack_strings
from pbos.threads import in_threads
from pbos.tuning import LAMS, SHARES, Choice, Words, choose, projection, reliabilities, row_cosines, split
from pbos.weights import Weights

LEAST_HELD_OUT = 100  # words, to fit a confidence to
LEAST_RANKED = 20_000  # words; with fewer, all are needed, and count the same
CALIBRATION_DIMS = 100  # enough for the cosines that the confidence is fitted to
LEAST_WEIGHT = 1e-4  # of a word as a whole; with a smaller one, its vector would be too long


@dataclass(frozen=True)
class Run:
    """What the steps of one training run share."""

    preset: Preset
    seed: int = 0
    threads: int | None = None
    device: Any = None  # of PyTorch; None for the CPU
    progress: bool | None = False


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
    to be large. Subwords merged into one vector cost the sum. Whole words are not merged: `keep_own_vectors` sets
    their vectors.
    """
    subwords = Subwords(index, run.preset)
    weights = subwords.weights_of_codes(codes, run.threads).merged()
    whole = np.full(len(words), -1)
    if not isinstance(run.preset.own_share, str):
        whole = subwords.rows_of_whole_words(codes)
    rows = index.rows
    with_vector = np.flatnonzero(rows >= 0)
    if run.preset.merge:
        numbers = weights.columns_of_same_words(apart=whole[whole >= 0])
        weights = weights.renumbered(numbers)
        rows[with_vector] = numbers[rows[with_vector]]
        whole = np.where(whole >= 0, numbers[whole], -1)
        index = index.with_rows(rows)
    penalty = np.zeros(weights.n_columns)
    np.add.at(penalty, rows[with_vector], position_factors(index, run.preset)[with_vector])
    return System(index, words, weights, penalty, whole, targets, counts)


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
    if run.preset.solver == "sgd":
        return solve_sgd(system, run), None
    choice, confidence = tune(system, run)
    with progress_bar("training", system.targets.shape[1], run.progress) as advance:
        solution = ridge_of(system, choice).solve(
            system.targets, choice.lam, threads=run.threads, device=run.device, on_slice=advance
        )
    solution.report["reliability"] = "even" if choice.share is None else round(choice.share, 4)
    if choice.scores:
        solution.report["tried"] = choice.scores
    if confidence is not None:
        reliability = reliabilities(system.counts, choice.share)
        confidence = in_full_space(confidence, solution.vectors, system.targets, reliability)
    if not isinstance(run.preset.own_share, str):
        keep_own_vectors(system, solution.vectors, run.preset.own_share, run.threads)
    return solution, confidence


def solve_sgd(system: System, run: Run) -> Solution:
    """Find the subword vectors by stochastic gradient descent."""
    recipe = run.preset
    with progress_bar("training", recipe.epochs, run.progress) as advance:
        return sgd(
            system.weights,
            system.targets,
            epochs=recipe.epochs,
            lr=recipe.lr,
            seed=run.seed,
            unit_length=recipe.unit_length,
            threads=run.threads,
            on_epoch=lambda epoch, loss: advance(1, note=f"epoch {epoch}, loss {loss:.3g}"),
        )


def ridge_of(system: System, choice: Choice) -> Ridge:
    """Return the ridge regression of a system."""
    return Ridge(system.weights, system.penalty, reliabilities(system.counts, choice.share))


# -- held-out words ----------------------------------------------------------------------------------------------------


def tune(system: System, run: Run) -> tuple[Choice, Confidence | None]:
    """Choose lam and reliability on held-out words, and fit the confidence to them."""
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
    kept = without(system, hidden)
    rows = np.flatnonzero(hidden)
    words = [system.words[row] for row in rows]
    weights = Subwords(kept.index, recipe, None, pack_strings(kept.words)).weights(words, run.threads)
    held_out = Words(weights, system.targets[rows], system.counts[rows])
    with progress_bar("choosing lam", None, run.progress) as advance:
        choice = choose(
            Words(kept.weights, kept.targets, kept.counts),
            held_out,
            system.penalty,
            lams=lams,
            shares=shares,
            seed=run.seed,
            threads=run.threads,
            device=run.device,
            on_try=lambda name, score: advance(1, note=f"lam {name}, cosine {score:.4f}"),
        )
        if not recipe.confidence or rows.size < LEAST_HELD_OUT:
            return choice, None
        return choice, calibrate(kept, words, held_out, choice, run)


def without(system: System, hidden: npt.NDArray[np.bool_]) -> System:
    """Return the system without some words; subwords that only these have lose their vectors."""
    kept = np.flatnonzero(~hidden)
    weights = system.weights.take(kept)
    seen = np.bincount(weights.indices, minlength=weights.n_columns) > 0
    rows = system.index.rows
    index = system.index.with_rows(np.where((rows >= 0) & seen[rows], rows, np.int32(-1)))
    words = [system.words[row] for row in kept]
    return System(index, words, weights, system.penalty, system.whole[kept], system.targets[kept], system.counts[kept])


def calibrate(kept: System, words: list[str], held_out: Words, choice: Choice, run: Run) -> Confidence:
    """Fit a confidence to the cosines of held-out words, as a model of the other words composes them."""
    directions = projection(held_out.targets.shape[1], CALIBRATION_DIMS, run.seed)
    kept = replace(kept, targets=kept.targets @ directions)
    solution = ridge_of(kept, choice).solve(kept.targets, choice.lam, threads=run.threads, device=run.device)
    evidence = unfitted(
        kept.weights,
        solution.vectors,
        kept.targets,
        kept.counts,
        lam=choice.lam,
        penalty=kept.penalty,
        reliability=reliabilities(kept.counts, choice.share),
        threads=run.threads,
        device=run.device,
    )
    vectors = SubwordVectors.of(solution.vectors)
    subwords = Subwords(kept.index, run.preset, vectors.lengths, pack_strings(kept.words))
    features = subwords.features(words, vectors, evidence, run.threads)
    return evidence.fitted(
        features, row_cosines(held_out.weights.composed(solution.vectors), held_out.targets @ directions)
    )


# -- training words ----------------------------------------------------------------------------------------------------


def keep_own_vectors(system: System, vectors: FloatMatrix, share: float, threads: int | None = None) -> None:
    """Let each training word keep a share of its own vector, by changing the vector that only the whole word has.

    With s composed of the subwords that the word shares with others, and v given, the word gets s + share * (v - s).
    So the share of known words does not depend on lam, which is best for unseen words. A word that is a part of other
    training words, as `car` is of `car-bomb`, has no vector for itself alone; it stays as it is. A word that shares
    nothing with others gets v.
    """
    weights = system.weights
    n_words = np.bincount(weights.indices, minlength=weights.n_columns)
    words = np.repeat(np.arange(len(weights)), np.diff(weights.indptr))
    own = (weights.indices == system.whole[words]) & (weights.data > LEAST_WEIGHT) & (n_words[weights.indices] == 1)
    alone, own_weights = words[own], weights.data[own, None]
    vectors[system.whole[alone]] = 0

    def write_block(first: int) -> None:
        block = slice(first, first + BLOCK)
        rows = alone[block]
        some = weights.take(rows)
        composed, shared = some.composed(vectors), shared_words(some, n_words, vectors)
        given = system.targets[rows]
        shares = np.where(shared.any(axis=1), np.float32(share), np.float32(1))[:, None]
        wanted = shared + shares * (given - shared)
        vectors[system.whole[rows]] = (wanted - composed) / own_weights[block]

    in_threads(write_block, range(0, alone.size, BLOCK), threads)
