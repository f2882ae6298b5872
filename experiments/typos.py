"""Misspelled words: those of people (the Birkbeck corpus), and one typo of each kind made here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from experiments.data import is_plain
from pbos.tables.published import download

FOLDER = Path(__file__).parent / ".cache" / "birkbeck"
BIRKBECK = (  # $word, then its misspellings, one per line
    "https://raw.githubusercontent.com/swarna93/Assignment-1-NLP/915ecb3de4c354e5d11178b51d3013779dba4964/missp.dat"
)
SHORTEST = 5  # letters of a word that gets a typo
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def birkbeck() -> Iterator[tuple[str, str]]:
    """Yield misspellings and right words of plain letters, in lower case."""
    file = FOLDER / "missp.dat"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        download(BIRKBECK, FOLDER)
    right, seen = "", set()
    for line in file.read_text(encoding="latin-1").lower().splitlines():
        if line.startswith("$"):
            right = line[1:]
        elif is_plain(line) and is_plain(right) and (line, right) not in seen:
            seen.add((line, right))
            yield line, right


def inside(word: str, random: np.random.Generator) -> int:
    """Choose a letter, but not the first."""
    return int(random.integers(1, len(word)))


def drop(word: str, random: np.random.Generator) -> str:
    """Leave out a letter."""
    at = inside(word, random)
    return word[:at] + word[at + 1 :]


def double(word: str, random: np.random.Generator) -> str:
    """Write a letter twice."""
    at = inside(word, random)
    return word[:at] + word[at] + word[at:]


def swap(word: str, random: np.random.Generator) -> str:
    """Exchange two neighboring letters that differ, if there are any after the first."""
    places = [at for at in range(1, len(word) - 1) if word[at] != word[at + 1]] or [0]
    at = int(random.choice(places))
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def neighbor(word: str, random: np.random.Generator) -> str:
    """Hit the key beside the right one."""
    at = inside(word, random)
    row = next(row for row in KEYBOARD if word[at] in row)
    key = row.index(word[at])
    return (
        word[:at] + str(random.choice([row[one] for one in (key - 1, key + 1) if 0 <= one < len(row)])) + word[at + 1 :]
    )


KINDS: dict[str, Callable[[str, np.random.Generator], str]] = {
    "dropped": drop,
    "doubled": double,
    "swapped": swap,
    "neighbor key": neighbor,
}
