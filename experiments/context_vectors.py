"""Vectors of words from their spelling, from the contexts in a text, and from both; and as A La Carte makes them."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import pbos
from experiments import corpora, data
from pbos.contexts import Mixed
from pbos.corpus.cooccurrences import Cooccurrences
from pbos.files.paths import open_bytes
from pbos.model import Model
from pbos.tables.published import say
from pbos.tables.word_vectors import WordVectors
from pbos.training.contexts import TextContexts, mixed_words
from pbos.words.arrays import FloatMatrix
from pbos.words.tokens import words_of

FOLDER = Path(__file__).parent / ".cache" / "contexts"
SIZE = 200_000  # words of GloVe
SPELLING, CONTEXTS, BOTH = "spelling", "contexts", "both"
REACH, WINDOW = 40, 10  # words on each side: of a sentence that a model gets; of a context of A La Carte
Ints = npt.NDArray[np.int64]
A_LA_CARTE = corpora.Source("NLPrinceton/ALaCarte", "MIT", "", commit="abe082f049633cc8dd958945e77bcd90fcda2946")


# Texts ----------------------------------------------------------------------------------------------------------------


class Text:
    """The words of a text, one after the other, and where each occurs."""

    def __init__(self, text: str) -> None:
        self.words, self.ids, self.ends = words_of(text, "words", lowercase=True)
        self.counts = np.bincount(self.ids, minlength=len(self.words))
        self.place_of = {word: place for place, word in enumerate(self.words)}
        self.order = np.argsort(self.ids, kind="stable")  # the occurrences of one word after those of another
        self.firsts = np.concatenate([[0], np.cumsum(self.counts)])

    def occurrences(self, word: str, most: int | None, random: np.random.Generator) -> Ints:
        """Return the positions of a word, or so many of them drawn at random."""
        place = self.place_of[word]
        found = self.order[self.firsts[place] : self.firsts[place + 1]]
        return found if most is None or most >= found.size else random.choice(found, most, replace=False)

    def lines(self, positions: Ints) -> tuple[Ints, Ints]:
        """Return where the lines of positions start and end."""
        line = np.searchsorted(self.ends, positions, "right")
        return np.concatenate([[0], self.ends])[line], self.ends[line]

    def sentence(self, position: int) -> str:
        """Return the words around a position, up to the line's ends and to other occurrences of the same word."""
        (start,), (end,) = self.lines(np.array([position]))
        first, last = max(start, position - REACH), min(end, position + REACH + 1)
        others = first + np.flatnonzero(self.ids[first:last] == self.ids[position])
        first = max([first, *(others[others < position] + 1)])
        last = min([last, *others[others > position]])
        return " ".join(self.words[place] for place in self.ids[first:last])

    def windows(self, positions: Ints, vectors: FloatMatrix) -> Iterator[tuple[Ints, FloatMatrix]]:
        """Yield positions, some at a time, and the sum of the vectors of ten words on each side of each.

        The vectors are those of all words of the text, and zeros in a last row.
        """
        reach = np.delete(np.arange(-WINDOW, WINDOW + 1), WINDOW)
        for part in np.array_split(positions, 1 + len(positions) // 20_000):
            starts, ends = self.lines(part)
            near = part[:, None] + reach
            inside = (near >= starts[:, None]) & (near < ends[:, None])
            ids = np.where(inside, self.ids[near.clip(0, self.ids.size - 1)], len(self.words))
            found = np.zeros((len(part), vectors.shape[1]), np.float32)
            for column in ids.T:
                found += vectors[column]
            yield part, found

    def mean_windows(self, positions: Ints, vectors: FloatMatrix) -> FloatMatrix:
        """Return for each word of the text the mean of these sums; zeros for words without a position.

        The positions of one word have to follow each other, as in `order`.
        """
        sums = np.zeros((len(self.words), vectors.shape[1]), np.float32)
        for part, found in self.windows(positions, vectors):
            places, firsts = np.unique(self.ids[part], return_index=True)
            sums[places[np.argsort(firsts)]] += np.add.reduceat(found, np.sort(firsts))
        n_times = np.bincount(self.ids[positions], minlength=len(sums))
        return sums / np.maximum(n_times, 1).astype(np.float32)[:, None]


def novels(folder: Path) -> Path:
    """Return the file of English novels, unpacked."""
    file = FOLDER / "novels.txt"
    if not file.exists():
        with gzip.open(data.corpus(folder), "rb") as stream, file.open("wb") as out:
            shutil.copyfileobj(stream, out)
    return file


def read(path: Path) -> str:
    """Return a text."""
    with open_bytes(path) as stream:
        return stream.read().decode("utf-8")


def blob(source: corpora.Source, path: str) -> bytes:
    """Return a file of a repository."""
    clone = corpora.fetch(source, corpora.FOLDER / "sources")
    return subprocess.run(["git", "show", f"{source.commit}:{path}"], cwd=clone, capture_output=True, check=True).stdout


def published_matrix(dims: int) -> FloatMatrix:
    """Return the transposed matrix of A La Carte for GloVe 6B."""
    return np.frombuffer(blob(A_LA_CARTE, f"transform/6B.{dims}d.bin"), np.float32).reshape(dims, dims).T


# Models ---------------------------------------------------------------------------------------------------------------


def counted(name: str, text: Path) -> Cooccurrences:
    """Return the co-occurrences of a text, from the cache if they are there."""
    folder = FOLDER / f"{name}.counting"
    if not folder.exists():
        pbos.count(text, FOLDER / f"{name}.tsv", cooccurrences=folder)
    return Cooccurrences.load(folder)


def trained(name: str, table: WordVectors, without: Iterable[str], pairs: Cooccurrences) -> Model:
    """Return a model of a table without some words, and of a text; from the cache if it is there."""
    folder = FOLDER / name
    if not folder.exists():
        hidden = set(without)
        rows = [row for row, word in enumerate(table.words) if word not in hidden]
        say(f"{name}: training on {len(rows):,} words")
        kept = WordVectors([table.words[row] for row in rows], table.vectors[rows])
        pbos.train(kept, text=pairs, keep_targets=False, output=folder)
    return pbos.load(folder)


class Found(NamedTuple):
    """Vectors of words by how they were made, and what the model says about the mixture of spelling and contexts."""

    vectors: dict[str, FloatMatrix]
    mixed: Mixed


def from_sentences(model: Model, words: list[str], sentences: dict[str, list[str]]) -> Found:
    """Return the vectors of words from their spelling, from sentences, and from both."""
    contexts = model._contexts
    assert contexts is not None
    seen = [contexts.seen(word, sentences[word]) for word in words]
    features = np.array([one.features(model.embed(one.words)) for one in seen])
    spelling = model.embed(words)
    mixed = contexts.mix(spelling, model.confidence(words), features, np.array([one.n_times for one in seen]))
    some = words[:20]  # so that what is measured is what people get
    theirs = model.embed(some, contexts={word: sentences[word] for word in some})
    assert np.allclose(theirs, mixed.vectors[:20], atol=1e-3), np.abs(theirs - mixed.vectors[:20]).max()
    return Found({SPELLING: spelling, CONTEXTS: contexts.applied(features), BOTH: mixed.vectors}, mixed)


def from_text(model: Model, pairs: Cooccurrences, words: list[str]) -> Found:
    """Return the vectors of words from their spelling, from all of a text, and from both; zeros without contexts."""
    assert model._contexts is not None
    place_of = {word: place for place, word in enumerate(pairs.words)}
    places = np.array([place_of.get(word, -1) for word in words])
    seen = places >= 0
    contexts = np.zeros((len(words), model.dims), np.float32)
    contexts[seen] = model._contexts.applied(TextContexts(pairs, model).features(places[seen]))
    mixed = mixed_words(model, pairs, words, None)
    return Found({SPELLING: model.embed(words), CONTEXTS: contexts, BOTH: mixed.vectors}, mixed)


def a_la_carte(text: Text, table: WordVectors, hidden: set[str]) -> tuple[FloatMatrix, FloatMatrix]:
    """Return the vectors of the words of a text as A La Carte has them, and its matrix fitted to that text, transposed.

    Its recipe: least squares, without a constant, of all words that occur and have vectors, each counting the same.
    """
    known = [word in table and word not in hidden for word in text.words]
    vectors = np.zeros((len(text.words) + 1, table.dims), np.float32)
    places = np.flatnonzero(known)
    vectors[places] = table.vectors[[table.row_of[text.words[place]] for place in places]]
    means = text.mean_windows(text.order[np.array(known)[text.ids[text.order]]], vectors)[places]
    normal = means.T.astype(np.float64) @ means
    return vectors, np.linalg.solve(normal, means.T.astype(np.float64) @ vectors[places]).astype(np.float32)
