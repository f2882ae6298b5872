"""Make the English model that comes with pbos: src/pbos/data/english.

    python scripts/make_english.py VECTORS

VECTORS is a folder with the 100,000 most frequent English words (by `wordfreq`) and their vectors: the outputs of the
sentence transformer all-MiniLM-L6-v2 for single words, centered and projected onto their principal components, the
largest first.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import pbos
from pbos.model import ENGLISH

DIMS, VECTORS = 160, 38_000

CARD = """# The English model of pbos

A vector for every English word, from its spelling. It comes with pbos: `pbos.load()`.

| | |
|---|---|
| words | {words:,} |
| vectors | {vectors:,}, shared by {subwords:,} subwords: the most important ones |
| dimensions | {dims}, int8 with a scale for each vector |
| preset | `default`, max_vectors={vectors}, lam={lam} (chosen on held-out words), seed 0 |
| recipe | `python scripts/make_english.py VECTORS` in the source of pbos |

## Where it comes from

The outputs of the sentence transformer all-MiniLM-L6-v2 (Apache-2.0) for single words, centered and projected onto
their first {dims} principal components. The words are the most frequent plain lower-case words of `wordfreq` (Robyn
Speer). No counts were used.

## What it is for

Trying out pbos, tests, and applications that need a small model. The vectors are of single words without context: a
word with two meanings gets a mixture of both. Biases of the sources about people, groups and places are in the vectors.
"""


def main() -> None:
    """Train, compress and save the model."""
    given = pbos.WordVectors.read(sys.argv[1])
    targets = pbos.WordVectors(given.words, np.ascontiguousarray(given.vectors[:, :DIMS]))
    model = pbos.train(targets, max_vectors=VECTORS).compress(dtype="int8")
    facts = {
        "words": len(targets),
        "vectors": len(model.subword_vectors),
        "subwords": int((model.index.rows >= 0).sum()),
        "dims": DIMS,
        "lam": model.info["training"]["lam"],
    }
    ENGLISH.parent.mkdir(exist_ok=True)
    model.save(ENGLISH, card=CARD.format(**facts))
    size = sum(file.stat().st_size for file in Path(ENGLISH).iterdir())
    print(f"{ENGLISH}: {size / 1e6:.2f} MB, {model}")


if __name__ == "__main__":
    main()
