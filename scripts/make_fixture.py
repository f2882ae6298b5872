"""Make the small data set of the tests, tests/fixtures: words of an invented language, counts, vectors, morphemes.

    python scripts/make_fixture.py

A word is an optional prefix, a stem, an optional suffix and an optional ending; a few are two stems with a hyphen. Its
frequency is the product of the frequencies of its morphemes, which follow the law of Zipf and Mandelbrot. Its vector is
the sum of the vectors of its morphemes, plus noise. So the right segmentation of every word is known, and the spelling
predicts the vector.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

PREFIXES = ["", "an", "mise", "or", "preš", "ul"]
SUFFIXES = ["", "ar", "eld", "ikos", "ment", "ön", "tur", "ula"]
ENDINGS = ["", "en", "im", "s", "ta"]
STEMS, COUNTED, WITH_VECTORS, DIMS, NOISE = 500, 3000, 2000, 32, 0.2
FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures"


def make_stems(random: np.random.Generator) -> list[str]:
    """Return distinct stems of two or three syllables, the most frequent first."""
    onsets, vowels, codas = [*"bdfgklmnprstvz", "kr", "st", "š"], list("aeiouäö"), ["", "", "l", "n", "r", "sk"]
    stems: dict[str, None] = {}
    while len(stems) < STEMS:
        syllables = [onsets[random.integers(17)] + vowels[random.integers(7)] for _ in range(random.integers(2, 4))]
        stems["".join(syllables) + codas[random.integers(6)]] = None
    return list(stems)


def shares(n: int, offset: int) -> list[float]:
    """Return the probabilities of n morphemes, by the law of Zipf and Mandelbrot."""
    weights = 1 / (np.arange(n) + offset)
    return [float(weight) for weight in weights / weights.sum()]


def make_words(stems: list[str]) -> list[tuple[tuple[str, ...], float]]:
    """Return the morphemes and the probability of the most frequent words, in this order."""
    parts = [
        list(zip(morphemes, shares(len(morphemes), offset), strict=True))
        for morphemes, offset in ((PREFIXES, 1), (stems, 10), (SUFFIXES, 1), (ENDINGS, 1))
    ]
    found = [
        (tuple(morpheme for morpheme, _ in choice if morpheme), float(np.prod([share for _, share in choice])))
        for choice in itertools.product(*parts)
    ]
    found += [((left, "-", right), 2e-4 / (i + 1)) for i, (left, right) in enumerate(itertools.pairwise(stems[:40]))]
    found.sort(key=lambda pair: (-pair[1], pair[0]))
    first = {}  # of words that can be made in two ways, the more frequent
    for morphemes, share in found:
        first.setdefault("".join(morphemes), (morphemes, share))
    return list(first.values())[:COUNTED]


def main(folder: Path = FIXTURES) -> None:
    """Write the fixture."""
    random = np.random.default_rng(12)
    stems = make_stems(random)
    words = make_words(stems)
    lengths = {**dict.fromkeys([*PREFIXES, *SUFFIXES, *ENDINGS], 0.5), **dict.fromkeys(stems, 1.0), "-": 0.0}
    vectors = {morpheme: length * random.normal(size=DIMS) for morpheme, length in lengths.items()}
    rows = [sum(vectors[morpheme] for morpheme in morphemes) for morphemes, _ in words[:WITH_VECTORS]]
    matrix = np.array(rows) + NOISE * random.normal(size=(WITH_VECTORS, DIMS))
    (folder / "vectors").mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors" / "vectors.npy", matrix.astype(np.float16))
    spelled = ["".join(morphemes) for morphemes, _ in words]
    write_lines(folder / "vectors" / "words.txt", spelled[:WITH_VECTORS])
    write_lines(folder / "counts.tsv", (f"{word}\t{round(1e8 * words[i][1])}" for i, word in enumerate(spelled)))
    write_lines(folder / "morphemes.txt", (" ".join(morphemes) for morphemes, _ in words))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file, the same to the byte on every system."""
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
