"""Align the vector spaces of two languages: how many translations given and composed vectors find.

    python benchmarks/aligned.py de it ru      # prints the table of docs/recipes/aligned-spaces.md, in about a minute

The vectors are `selftrained-en` and those of the other language, trained independently on different novels. The
dictionary comes from SimLex-999 and WordSim-353, which were translated row by row. Half of its English words are used
to align the spaces, the other half to test: each word's translation is searched among all words of the other language,
by cosine.
"""

from __future__ import annotations

import argparse
import random

import numpy as np
from measure import DATA

import pbos
from experiments import datasets
from pbos.words.arrays import unit_rows


def dictionary(language: str) -> list[tuple[str, str]]:
    """Return pairs of an English word and its translation, without duplicates."""
    english, other = (
        {kind: datasets.pairs(f"{kind}-{code}", DATA) for kind in ("SimLex999", "WS353")} for code in ("en", language)
    )
    pairs: dict[tuple[str, str], None] = {}
    for kind in english:
        for row, translated in zip(english[kind], other[kind], strict=True):
            pairs |= {(row[at].lower(), translated[at].lower()): None for at in (0, 1)}
    return list(pairs)


def rotation(source, target):
    """Return the rotation that maps the rows of one matrix closest to those of another (orthogonal Procrustes)."""
    left, _, right = np.linalg.svd(source.T.astype(np.float64) @ target)
    return (left @ right).astype(np.float32)


def centered(vectors: pbos.WordVectors) -> pbos.WordVectors:
    """Center vectors and scale them to unit length."""
    units = unit_rows(vectors.vectors)
    return pbos.WordVectors(vectors.words, unit_rows(units - units.mean(axis=0)))


def found(queries, targets, right):
    """Return how often a correct row is first / among the first ten, in percent."""
    order = np.argsort(-(unit_rows(queries) @ unit_rows(targets).T), axis=1)[:, :10]
    hits = np.array([[row in rows for row in nearest] for nearest, rows in zip(order.tolist(), right, strict=True)])
    return f"{100 * hits[:, 0].mean():.1f} / {100 * hits.any(axis=1).mean():.1f}"


def measure(language: str, seed: int) -> None:
    """Print how many translations are found with given vectors, and with the test words held out from training."""
    spaces = [centered(pbos.WordVectors.read(DATA / "vectors" / f"selftrained-{code}")) for code in ("en", language)]
    english, other = spaces
    pairs = [(one, two) for one, two in dictionary(language) if one in english and two in other]
    sources = sorted({one for one, _ in pairs})
    random.Random(seed).shuffle(sources)
    test_words = set(sources[: len(sources) // 2])
    test = {one: {other.row_of[two] for source, two in pairs if source == one} for one in sorted(test_words)}
    heldout = {two for one, two in pairs if one in test_words}  # their translations, excluded from the anchors too
    anchors = [(one, two) for one, two in pairs if one not in test_words and two not in heldout]
    matrix = rotation(*(np.stack([space[pair[at]] for pair in anchors]) for at, space in enumerate(spaces)))
    aligned = pbos.WordVectors(english.words, english.vectors @ matrix)
    queries, right = list(test), list(test.values())

    def without(vectors: pbos.WordVectors, words: set[str]) -> pbos.WordVectors:
        rows = [row for row, word in enumerate(vectors.words) if word not in words]
        return pbos.WordVectors([vectors.words[row] for row in rows], vectors.vectors[rows])

    models = pbos.train(without(aligned, test_words)), pbos.train(without(other, heldout))
    targets = other.vectors.copy()
    rows = [other.row_of[word] for word in sorted(heldout)]
    targets[rows] = models[1].embed(sorted(heldout))
    given = np.stack([aligned[word] for word in queries])
    composed = models[0].embed(queries)
    scores = [found(english.vectors[[english.row_of[word] for word in queries]], other.vectors, right)]
    scores += [found(given, other.vectors, right), found(composed, other.vectors, right)]
    scores += [found(composed, targets, right)]
    print(f"| {language} | {len(anchors)} | {len(test)} | {len(other):,} | {' | '.join(scores)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("languages", nargs="*", default=["de", "it", "ru"], help="language codes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    columns = ("English to", "anchor pairs", "test words", "candidates")
    columns += ("unaligned", "given vectors", "English held out", "both held out")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for language in options.languages:
        measure(language, options.seed)
