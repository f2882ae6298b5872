"""What unknown words get, by rival. Known words have their vectors in GloVe, the same for all rivals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path

import numpy as np

import pbos
from experiments import data, tasks
from experiments.baselines import NearestSpelling
from experiments.downstream.sources import PAIRS, Sources
from experiments.reproduce import code_of
from pbos.files.atomic import write_whole
from pbos.model import Model
from pbos.tables.published import say
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import FloatMatrix

FOLDER = Path(__file__).parents[1] / ".cache" / "downstream"
TABLE, SIZE, HIDDEN = "glove-6b-100d", 200_000, 4000
DEFAULT, WEIGHTED, NEAREST = "default", "default x confidence", "nearest spelling"
TYPOS = {"default, typos .1": 0.1, "default, typos .3": 0.3}
RIVALS = ("zeros", "mean", NEAREST, "bos", "pbos", DEFAULT, WEIGHTED)
OURS = ("bos", "pbos", DEFAULT, WEIGHTED, *TYPOS)
FREQUENT, LEAST_LETTERS = 20_000, 4  # the words that are misspelled on purpose
KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def is_wordlike(word: str) -> bool:
    """Return whether a word is composed if it is unknown; all rivals give zeros to the others.

    This copy of GloVe lacks single letters, most numbers, and the ends of contractions, which GloVe has.

    >>> [word for word in ["selfie", "p53", "a", "1996", "'ll", "n't", "--"] if is_wordlike(word)]
    ['selfie', 'p53']
    """
    return len(word) > 1 and any(map(str.isalpha, word)) and not word.startswith("'") and word != "n't"


class Rivals:
    """The table of known words, and the vectors that rivals give to others.

    Attributes:
        sources: Where the words of similarity sets come from, which are hidden from some models.
        table: The known words.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.table = WordVectors.read(data.published(TABLE), limit=SIZE, progress=False)
        FOLDER.mkdir(parents=True, exist_ok=True)

    @cached_property
    def split(self) -> tasks.Split:
        """The table without the words of similarity sets, and without some words to measure on."""
        asked = {word for name in PAIRS for pair in self.sources.pairs(name) for word in pair[:2]}
        return tasks.hide(self.table, HIDDEN, dropped=asked)

    def unknown(self, words: Iterable[str]) -> list[str]:
        """Return the distinct words that rivals compose, in lower case."""
        lower = dict.fromkeys(word.lower() for word in words)
        return [word for word in lower if word not in self.table and is_wordlike(word)]

    def vectors(self, rival: str, words: list[str], *, hidden: bool = False) -> FloatMatrix:
        """Return a rival's vectors of words outside the table; `hidden` if it has no word of a similarity set."""
        table = self.split.kept if hidden else self.table
        if rival == "zeros":
            return np.zeros((len(words), table.dims), np.float32)
        if rival == "mean":
            return np.tile(table.vectors.mean(axis=0, dtype=np.float64).astype(np.float32), (len(words), 1))
        if rival == NEAREST:
            return table.vectors[self.nearest(words, table, hidden)]
        model = self.model(DEFAULT if rival == WEIGHTED else rival, hidden)
        vectors = model.embed(words)
        return vectors * model.confidence(words)[:, None] if rival == WEIGHTED else vectors

    def nearest(self, words: list[str], table: WordVectors, hidden: bool) -> list[int]:
        """Return the rows of the words with the nearest spelling; what was found before is kept, as it takes long."""
        file = FOLDER / f"nearest{'-hidden' if hidden else ''}.json"
        rows = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if new := [word for word in dict.fromkeys(words) if word not in rows]:
            rows |= dict(zip(new, NearestSpelling(table).nearest(new), strict=True))
            with write_whole(file) as stream:
                stream.write(json.dumps(rows, ensure_ascii=False).encode())
        return [rows[word] for word in words]

    @cache  # noqa: B019 - there is one for each run
    def model(self, rival: str, hidden: bool = False) -> Model:
        """Return a trained model; from the cache if this code has trained it."""
        folder = FOLDER / f"{rival}{'-hidden' if hidden else ''}-{code_of(DEFAULT)}"
        if not folder.exists():
            say(f"training {folder.name}")
            table, fixed = self.split.kept if hidden else self.table, {}
            if rival in TYPOS:  # all settings are those of the default's model, so that only the words differ
                chosen = self.model(DEFAULT, hidden).info["training"]
                fixed = {"lam": chosen["lam"], "reliability": chosen["reliability"], "confidence": False}
                table = with_typos(table, TYPOS[rival])
            preset = DEFAULT if rival in TYPOS else rival
            pbos.train(table, preset=preset, keep_targets=False, progress=False, output=folder, **fixed)
        return pbos.load(folder)


# Misspellings on purpose ----------------------------------------------------------------------------------------------


def with_typos(table: WordVectors, share: float) -> WordVectors:
    """Return a table with misspellings of frequent words after its last one, so that they count least.

    A misspelling has the vector of the right word. There are `share` times as many as words.
    """
    random = np.random.default_rng(0)
    suited = [row for row, word in enumerate(table.words) if len(word) >= LEAST_LETTERS and data.is_plain(word)]
    found: dict[str, int] = {}
    wanted = int(share * len(table))
    while len(found) < wanted:
        for row in suited[: min(FREQUENT, wanted)]:
            word = misspelled(table.words[row], random)
            if len(found) < wanted and word not in table:
                found.setdefault(word, row)
    return WordVectors([*table.words, *found], np.concatenate([table.vectors, table.vectors[list(found.values())]]))


def misspelled(word: str, random: np.random.Generator) -> str:
    """Drop, double, swap or replace a letter, the latter by a neighbor on the keyboard.

    >>> random = np.random.default_rng(0)
    >>> sorted({misspelled("at", random) for _ in range(100)})
    ['aat', 'st', 't', 'ta']
    """
    at = int(random.integers(len(word) - 1))
    letter, after, rest = word[at], word[at + 1], word[at + 2 :]
    row = next(row for row in KEYS if letter in row)
    near = [other for other in row if abs(row.index(other) - row.index(letter)) == 1]
    new = (after, 2 * letter + after, after + letter, near[random.integers(len(near))] + after)
    return f"{word[:at]}{new[random.integers(4)]}{rest}"
