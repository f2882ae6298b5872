"""Make the English model that comes with pbos: src/pbos/data/english.

    python scripts/make_english.py VECTORS

VECTORS is a folder with the 100,000 most frequent English words (by `wordfreq`) and their vectors: the single-word
outputs of the sentence transformer all-MiniLM-L6-v2, centred and projected on their first principal directions, the
largest first. Needs the extra `wordfreq`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import pbos
from pbos.model import EMBEDDED

WORDS, DIMS, MIN_COUNT, EPOCHS = 40_000, 80, 2, 50

CARD = """# The English model of pbos

A vector for every English word, from its spelling. It comes with pbos: `pbos.load()`.

| | |
|---|---|
| words | the {words:,} most frequent of the list |
| subwords | {vectors:,}: all that at least {min_count} of these words hold |
| vectors | {dims} dimensions, int8 with a scale for each |
| preset | `pbos` (Zhao et al. 2020), {epochs} epochs, seed 0 |
| recipe | `python scripts/make_english.py VECTORS` in the source of pbos |

## Where it comes from

- Target vectors: the outputs of the sentence transformer all-MiniLM-L6-v2 (Apache-2.0) for single words, centred, first
  {dims} principal directions.
- Word counts: `wordfreq` (Robyn Speer), English. Its code is Apache-2.0; its data, of which the subword probabilities
  here are sums, is CC BY-SA 4.0 and compiled from Wikipedia, subtitles, news, books, web text, Twitter and Reddit; the
  wordfreq project lists the sources.

## What it is for

Trying pbos, tests, and applications that need a small model. Vectors of single words without context: a word with two
meanings gets a mixture, and what the sources say about people, groups and places is in the vectors too.
"""


def main() -> None:
    """Train, compress and save the model."""
    given = pbos.WordVectors.read(sys.argv[1], limit=WORDS)
    targets = pbos.WordVectors(given.words, np.ascontiguousarray(given.vectors[:, :DIMS]))
    model = pbos.train(targets, "en", min_count=MIN_COUNT, epochs=EPOCHS).compress(dtype="int8")
    facts = {"words": WORDS, "vectors": len(model.vectors), "dims": DIMS, "min_count": MIN_COUNT, "epochs": EPOCHS}
    EMBEDDED.parent.mkdir(exist_ok=True)
    model.save(EMBEDDED, card=CARD.format(**facts))
    size = sum(file.stat().st_size for file in Path(EMBEDDED).iterdir())
    print(f"{EMBEDDED}: {size / 1e6:.2f} MB, {model}")


if __name__ == "__main__":
    main()
