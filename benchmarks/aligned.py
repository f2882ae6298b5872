"""Two languages in one space: translations found by given and by composed vectors.

    python benchmarks/aligned.py de it ru      # prints the table of docs/recipes/aligned-spaces.md, in a minute

The vectors are `selftrained-en` and those of the other language, trained apart on different novels. The dictionary is
made of SimLex-999 and WordSim-353, which were translated row by row. Half of it turns one space onto the other; the
other half is looked for: for each English word its translation among all words of the other language, by cosine.
"""

from __future__ import annotations

import argparse
import random

import numpy as np
from inputs import DATA

import pbos
from pbos.arrays import unit_rows
from pbos.evaluation import datasets


def dictionary(language: str) -> list[tuple[str, str]]:
    """Return pairs of an English word and its translation, each pair once."""
    english, other = (datasets.multilingual_pairs(code, DATA) for code in ("en", language))
    pairs: dict[tuple[str, str], None] = {}
    for kind in ("SimLex999", "WS353"):
        for row, translated in zip(english[kind], other[kind], strict=True):
            pairs |= {(row[at].lower(), translated[at].lower()): None for at in (0, 1)}
    return list(pairs)


def rotation(source, target):
    """Return the rotation that brings the rows of one matrix nearest to those of another (Procrustes)."""
    left, _, right = np.linalg.svd(source.T.astype(np.float64) @ target)
    return (left @ right).astype(np.float32)


def centred(vectors: pbos.WordVectors) -> pbos.WordVectors:
    """Scale vectors to length 1 around their mean."""
    units = unit_rows(vectors.vectors)
    return pbos.WordVectors(vectors.words, unit_rows(units - units.mean(axis=0)))


def found(queries, targets, right):
    """Return the share of queries with a right row first, and among the first ten, in percent."""
    order = np.argsort(-(unit_rows(queries) @ unit_rows(targets).T), axis=1)[:, :10]
    hits = [[row in rows for row in some] for some, rows in zip(order.tolist(), right, strict=True)]
    return f"{100 * np.mean([some[0] for some in hits]):.1f} / {100 * np.mean([any(some) for some in hits]):.1f}"


def measure(language: str, seed: int) -> None:
    """Print how many translations are found: by given vectors, and with the words of the test hidden from training."""
    spaces = [centred(pbos.WordVectors.read(DATA / "vectors" / f"selftrained-{code}")) for code in ("en", language)]
    english, other = spaces
    pairs = [(one, two) for one, two in dictionary(language) if one in english and two in other]
    sources = sorted({one for one, _ in pairs})
    random.Random(seed).shuffle(sources)
    asked = set(sources[: len(sources) // 2])
    test = {one: {other.row_of[two] for source, two in pairs if source == one} for one in sorted(asked)}
    hidden = {two for one, two in pairs if one in asked}  # translations that no pair for turning may have either
    anchors = [(one, two) for one, two in pairs if one not in asked and two not in hidden]
    turn = rotation(*(np.stack([space[pair[at]] for pair in anchors]) for at, space in enumerate(spaces)))
    turned = pbos.WordVectors(english.words, english.vectors @ turn)
    queries, right = list(test), list(test.values())

    def without(vectors: pbos.WordVectors, words: set[str]) -> pbos.WordVectors:
        rows = [row for row, word in enumerate(vectors.words) if word not in words]
        return pbos.WordVectors([vectors.words[row] for row in rows], vectors.vectors[rows])

    models = pbos.train(without(turned, asked)), pbos.train(without(other, hidden))
    targets = other.vectors.copy()
    rows = [other.row_of[word] for word in sorted(hidden)]
    targets[rows] = models[1].embed(sorted(hidden))
    given = np.stack([turned[word] for word in queries])
    composed = models[0].embed(queries)
    scores = [found(english.vectors[[english.row_of[word] for word in queries]], other.vectors, right)]
    scores += [found(given, other.vectors, right), found(composed, other.vectors, right)]
    scores += [found(composed, targets, right)]
    print(f"| {language} | {len(anchors)} | {len(test)} | {len(other):,} | {' | '.join(scores)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("languages", nargs="*", default=["de", "it", "ru"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| to | pairs to turn by | words asked | among | not turned | given | English hidden | both hidden |")
    print(f"|{'---|' * 8}")
    for language in options.languages:
        measure(language, options.seed)
