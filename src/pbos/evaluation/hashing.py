"""Subwords in buckets, as in fastText: what a hash throws together shares a vector. To compare with pruning."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.counts import WordCounts
from pbos.model import Model
from pbos.subword_vectors import SubwordVectors
from pbos.subwords import SubwordIndex
from pbos.text import pack_strings
from pbos.training import choose, end_factors, make_index, solve
from pbos.vectors import WordVectors
from pbos.weights import word_weights


def train_hashed(
    vectors: WordVectors,
    counts: WordCounts | None,
    buckets: int,
    *,
    preset: str,
    threads: int | None = None,
    **settings: Any,
) -> Model:
    """Train a model whose subwords share so many vectors, by a hash of their spelling.

    The index stays, since probabilities need it; only the vectors are fewer.
    """
    chosen = choose(preset, {**settings, "merge": False})
    table = WordCounts.from_ranks(vectors.words) if counts is None else counts
    index = make_index(table, vectors.words, chosen, threads)
    weights = word_weights(index, chosen.codes(vectors.words), chosen.spelling, threads=threads)
    owners = index.owners()
    _, numbers = np.unique(spelling_hashes(index)[owners] % np.uint64(buckets), return_inverse=True)
    penalty = np.zeros(int(numbers.max()) + 1)
    np.add.at(penalty, numbers, end_factors(index, chosen)[owners])
    solution = solve(weights.renumbered(numbers), vectors.vectors, penalty, chosen, 0, threads, progress=False)
    rows = np.full(index.rows.size, -1, np.int32)
    rows[owners] = numbers
    info = {"preset": preset, **asdict(chosen), "training": solution.report}
    packed = pack_strings(vectors.words)
    return Model(index.with_rows(rows), chosen.spelling, SubwordVectors.of(solution.vectors), packed, info=info)


def spelling_hashes(index: SubwordIndex) -> npt.NDArray[np.uint64]:
    """Return for each node a hash of its string (FNV-1a over code points), level by level."""
    parents, code_points = index.parents(), index.code_points.astype(np.uint64)
    hashes = np.full(parents.size, 0xCBF29CE484222325, np.uint64)
    level = np.zeros(parents.size, np.bool_)
    level[0] = True
    while level.any():
        level = level[parents]  # the children of the last level
        level[0] = False
        hashes[level] = (hashes[parents[level]] ^ code_points[level]) * np.uint64(0x100000001B3)
    return hashes
