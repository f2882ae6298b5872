"""Subwords in buckets, as in fastText: subwords with the same hash share a vector. To compare with pruning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.fnv import fnv1a
from pbos.jobs.pools import Threads
from pbos.model import Model
from pbos.settings import Preset
from pbos.tables.counts import WordCounts
from pbos.tables.word_vectors import WordVectors
from pbos.training.counting import make_index
from pbos.training.fit import fit
from pbos.training.system import Run, make_system
from pbos.words.index import SubwordIndex
from pbos.words.text import encode, pack_strings
from pbos.words.variants import resolved
from pbos.words.vectors import SubwordVectors


def train_hashed(
    vectors: WordVectors,
    counts: WordCounts | None,
    buckets: int,
    *,
    preset: str,
    threads: int | None = None,
    **settings: Any,
) -> Model:
    """Train a model whose subwords share at most `buckets` vectors, by a hash of their spelling.

    The index stays whole, since probabilities need it; only the vectors are fewer.
    """
    recipe = resolved(Preset.named(preset, {**settings, "merge": False}), vectors.words)
    run, codes = Run(recipe, threads=threads, pool=Threads(threads)), encode(vectors.words, recipe)
    counts = WordCounts.from_ranks(vectors.words) if counts is None else counts
    index = make_index(counts, vectors.words, codes, run)
    system = make_system(index, vectors.words, codes, vectors.vectors, counts.of_words(vectors.words), run)

    rows = system.index.rows  # of each subword: the row of its vector, -1 for none
    has_vector = rows >= 0
    _, bucket = np.unique(spelling_hashes(index)[has_vector] % np.uint64(buckets), return_inverse=True)
    bucket_of_row = np.zeros(len(system.penalty), np.int64)
    bucket_of_row[rows[has_vector]] = bucket
    penalty = np.zeros(bucket.max() + 1)
    np.add.at(penalty, bucket_of_row, system.penalty)
    rows[has_vector] = bucket

    hashed = replace(
        system,
        index=system.index.with_rows(rows),
        weights=system.weights.renumbered(bucket_of_row),
        penalty=penalty,
        whole=np.where(system.whole >= 0, bucket_of_row[system.whole], -1),
    )
    solution = fit(hashed, run)
    return Model(hashed.index, recipe.spelling, SubwordVectors.of(solution.vectors), pack_strings(vectors.words))


def spelling_hashes(index: SubwordIndex) -> npt.NDArray[np.uint64]:
    """Return a hash of each node's string (FNV-1a over code points); the root has no string and gets 0."""
    return np.array([0, *(fnv1a(subword) for subword in index.strings())], np.uint64)
