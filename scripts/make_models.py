"""Make the models that come with pbos, in src/pbos/data.

    python scripts/make_models.py english VECTORS TEXT
    python scripts/make_models.py russian "$(pbos get navec-hudlit)" TEXT

VECTORS is a folder with the 100,000 most frequent English words (by `wordfreq`) and their vectors: the outputs of the
sentence transformer all-MiniLM-L6-v2 for single words, centered and projected onto their principal components, the
largest first. TEXT is novels, to learn from how to use contexts: ELTeC's, and for Russian what `python -m experiments
corpora ru` makes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

import pbos
from pbos.files.model_folder import DATA
from pbos.words.arrays import principal_components

CARD = """# The {language} model of pbos

A vector for every {language} word, from its spelling. It comes with pbos: `pbos.load({call})`.

| | |
|---|---|
| words | {words:,} |
| vectors | {vectors:,}, shared by {subwords:,} subwords: the most important ones |
| dimensions | {dims}, int8 with a scale for each vector |
| words held out | 5%, in a training of its own: cosine {cosine:.3f} to the given vectors, the rarest third {rare:.3f} |
| preset | `default`, max_vectors={vectors}, lam={lam} (chosen on held-out words), seed 0 |
| contexts | learned from {text} |
| recipe | `python scripts/make_models.py {name} VECTORS TEXT` in the source of pbos |

## Where it comes from

{source}

## What it is for

Trying out pbos, tests, and applications that need a small model. The vectors are of single words without context: a
word with two meanings gets a mixture of both. Biases of the sources about people, groups and places are in the vectors.
"""
ENGLISH = """\
The outputs of the sentence transformer all-MiniLM-L6-v2 (Apache-2.0) for single words, centered and projected onto
their first 160 principal components. The words are the most frequent plain lower-case words of `wordfreq` (Robyn
Speer). No counts were used."""
RUSSIAN = """\
Navec hudlit v1 (MIT license, Alexander Kukushkin, <https://github.com/natasha/navec>): GloVe vectors of 12 billion
words of Russian fiction, quantized, 300 dimensions. The most frequent 100,000 words of lower-case Cyrillic letters were
taken, centered and projected onto their first 100 principal components, which have 60% of the variance. No counts were
used. New and technical words are rare in fiction."""


def english(given: pbos.WordVectors) -> pbos.WordVectors:
    """Return the target vectors of the English model."""
    return pbos.WordVectors(given.words, np.ascontiguousarray(given.vectors[:, :160]))


def russian(given: pbos.WordVectors) -> pbos.WordVectors:
    """Return the target vectors of the Russian model."""
    rows = [row for row, word in enumerate(given.words) if re.fullmatch("[а-яё]+", word)][:100_000]
    vectors = given.vectors[rows] - given.vectors[rows].mean(axis=0)
    return pbos.WordVectors([given.words[row] for row in rows], vectors @ principal_components(vectors, 100))


NOVELS = "99 English novels of 1840 to 1920 (ELTeC, CC BY 4.0)"
LITERATURE = "Russian novels and plays (ELTeC, RusDraCor; public domain and CC0) and the help of LibreOffice (MPL-2.0)"
RECIPES = {"english": (english, ENGLISH, 37_000, NOVELS), "russian": (russian, RUSSIAN, 30_000, LITERATURE)}


def main() -> None:
    """Train, compress and save a model."""
    name, path, text = sys.argv[1:]
    make, source, vectors, about_text = RECIPES[name]
    targets = make(pbos.WordVectors.read(path))
    measured = pbos.train(targets, max_vectors=vectors, heldout=0.05).info["training"]
    model = pbos.train(targets, text=Path(text), max_vectors=vectors).compress(dtype="int8")
    card = CARD.format(
        language=name.capitalize(),
        name=name,
        call="" if name == "english" else f'"{name}"',
        words=len(targets),
        vectors=len(model.subword_vectors),
        subwords=int((model.index.rows >= 0).sum()),
        dims=targets.dims,
        lam=model.info["training"]["lam"],
        cosine=measured["heldout_cosine"],
        rare=measured["heldout_cosine_rare"],
        source=source,
        text=about_text,
    )
    model.save(DATA / name, card=card)
    size = sum(file.stat().st_size for file in (DATA / name).iterdir())
    print(f"{DATA / name}: {size / 1e6:.2f} MB, {model}")


if __name__ == "__main__":
    main()
