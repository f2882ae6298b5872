"""The equations of training, given vectors = weights @ subword vectors, and the run that solves them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.jobs.pools import Pool, Threads
from pbos.jobs.threads import blocks
from pbos.jobs.workspace import Workspace
from pbos.kernels import columns
from pbos.settings import PRESETS, Preset, Spelling
from pbos.words.arrays import FloatMatrix, held_out_rows, rows_of
from pbos.words.index import SubwordIndex
from pbos.words.subwords import Subwords
from pbos.words.text import LEFT, RIGHT, Codes, PackedStrings, pack_strings
from pbos.words.weights import Weights, columns_of_same_words, joined

PART = 1 << 17  # words whose weights are computed together, at most
SMALL_PART = 4096
MOST_HELD_OUT = 5000


@dataclass(frozen=True)
class Run:
    """The settings of a training run, and where its work is done."""

    preset: Preset = PRESETS["default"]
    seed: int = 0
    threads: int | None = None
    device: Any = None  # of PyTorch; None for the CPU
    progress: bool | None = False
    pool: Pool = field(default_factory=Threads)
    work: Workspace = field(default_factory=Workspace)


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
    to be large; those merged into one vector cost the sum. Whole words are not merged: `own_share` sets their vectors.
    """
    recipe, pool, work, with_whole = run.preset, run.pool, run.work, not isinstance(run.preset.own_share, str)
    subwords = Subwords(SubwordIndex(work.keep_all("index", index.arrays)), recipe)

    def weigh(some: slice) -> tuple[Weights, npt.NDArray[np.int64]]:
        part = codes.part(some.start, some.stop)
        found = subwords.weights_of_codes(part, threads=1).merged()
        whole = subwords.rows_of_whole_words(part) if with_whole else np.full(len(found), -1)
        return found.kept(f"part-{some.start}", work), whole

    size = min(max(SMALL_PART, len(words) // (8 * pool.size)), PART)
    weighed = pool.map("weigh-words", weigh, blocks(len(words), size))
    parts, whole = [part for part, _ in weighed], np.concatenate([whole for _, whole in weighed])
    rows = index.rows
    with_vector = np.flatnonzero(rows >= 0)
    if recipe.merge:
        numbers = work.keep("numbers", columns_of_same_words(parts, whole[whole >= 0]))
        rows[with_vector] = numbers[rows[with_vector]]
        whole = np.where(whole >= 0, numbers[whole], -1)
        index = index.with_rows(rows)

        def merge(item: tuple[int, Weights]) -> Weights:
            at, part = item
            return part.renumbered(numbers).kept(f"merged-{at}", work)

        merged = pool.map("merge-subwords", merge, list(enumerate(parts)))
        for part in parts:
            part.forget(work)
        parts = merged
    weights = joined(parts, work)
    penalty = np.zeros(weights.n_columns)
    np.add.at(penalty, rows[with_vector], position_factors(index, recipe)[with_vector])
    return System(index, words, weights, penalty, whole, targets, counts)


def position_factors(index: SubwordIndex, spelling: Spelling) -> npt.NDArray[np.float64]:
    """Return for each node how much more it weighs because it starts or ends with a mark."""
    if spelling.start_weight == spelling.end_weight == 1:
        return np.ones(len(index) + 1)
    first = index.parents()  # becomes the node of the first character, by pointer jumping
    first[: index.alphabet.size + 1] = np.arange(index.alphabet.size + 1)
    while not np.array_equal(first, further := first[first]):
        first = further
    last = index.code_points
    starts = np.where(last[first] == ord(LEFT), spelling.start_weight, 1.0)
    return starts * np.where(last == ord(RIGHT), spelling.end_weight, 1.0)


# -- held-out words ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """A system, and training words that are held out to choose settings on."""

    system: System
    kept: npt.NDArray[np.int64]  # the positions of the other words
    hidden: npt.NDArray[np.int64]  # of the held-out words
    given: FloatMatrix  # their given vectors
    hidden_weights: Weights  # of their subwords that the other words have
    index: SubwordIndex  # in which only these have vectors
    kept_words: PackedStrings


class HeldOut(NamedTuple):
    """Held-out words as a model of the other words composed them, in a projection."""

    rows: npt.NDArray[np.int64]  # their positions among the training words, which ascend
    vectors: FloatMatrix  # (n_words, n_directions)
    confidence: npt.NDArray[np.float32]
    directions: FloatMatrix  # (dims, n_directions)


def split_words(system: System, run: Run, hidden: npt.NDArray[np.int64] | None = None) -> Split:
    """Hold out some words, or a tenth of all, at most 5,000."""
    n_words = len(system.words)
    if hidden is None:
        hidden = held_out_rows(n_words, min(n_words // 10, MOST_HELD_OUT), run.seed)
    kept = np.setdiff1d(np.arange(n_words), hidden)
    weights = system.weights
    seen = columns.count_rows(weights.indptr, weights.indices, weights.data, kept, weights.n_columns) > 0
    rows = system.index.rows
    index = system.index.with_rows(np.where((rows >= 0) & seen[rows], rows, np.int32(-1)))
    packed = pack_strings([system.words[row] for row in kept.tolist()])
    subwords = Subwords(index, run.preset, None, packed)
    hidden_weights = subwords.weights([system.words[row] for row in hidden.tolist()], run.threads)
    return Split(system, kept, hidden, rows_of(system.targets, hidden), hidden_weights, index, packed)
