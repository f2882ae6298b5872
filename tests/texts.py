"""Texts for the tests of counting, and what is to be counted in them by the definition."""

import itertools
from collections import Counter

import numpy as np
import scipy.sparse as sp

from pbos.corpus import counting, sources
from pbos.corpus.cooccurrences import Counting
from pbos.jobs.pools import Threads

WINDOW = 3
PLAIN = Counting(window=WINDOW, thin=1e9)  # nothing is subsampled


def generated_text(n_lines, seed=0, n_words=60, kinds=4):
    """Lines of made-up words; frequent ones are more likely, and near ones of the same kind."""
    random = np.random.default_rng(seed)
    names = np.array([f"w{chr(97 + at % 26)}{chr(97 + at // 26)}" for at in range(n_words)])
    lines = []
    for _ in range(n_lines):
        kind, size = random.integers(kinds), random.integers(0, 15)
        ids = (random.pareto(1.0, size) * 4).astype(int) * kinds + kind
        lines.append(" ".join(names[ids % n_words]))
    return "\n".join(lines) + "\n"


def run_by_hand(text, window=WINDOW):
    """Word counts and contexts by the definition, with dictionaries."""
    counts, contexts = Counter(), Counter()
    for line in text.split("\n"):
        words = line.split()
        counts.update(words)
        for at, first in enumerate(words):
            for distance, second in enumerate(words[at + 1 : at + 1 + window], 1):
                contexts["near", first, second] += window + 1 - distance
                contexts["near", second, first] += window + 1 - distance
        for first, second in itertools.pairwise(words):
            contexts["before", first, second] += 1
            contexts["after", second, first] += 1
    return dict(counts), dict(contexts)


def as_dictionaries(found):
    n = len(found)
    matrix = sp.csr_matrix((found.data, found.indices, found.indptr), shape=(n, 3 * n)).tocoo()
    kinds = np.array(["near", "before", "after"])[matrix.col // n].tolist()
    names = [found.words[at] for at in matrix.row], [found.words[at] for at in matrix.col % n]
    contexts = dict(zip(zip(kinds, *names, strict=True), matrix.data.tolist(), strict=True))
    return dict(zip(found.words, found.counts.tolist(), strict=True)), contexts


def count(text, folder, settings=PLAIN, threads=2):
    """Count into the folder `target` in a folder."""
    folder.mkdir(exist_ok=True)
    return counting.count_text(sources.source_of(text), settings, folder / "target", Threads(threads))


def content_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
