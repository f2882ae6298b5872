"""Measures one rival in one task; what was measured before, by the same code, is read from the cache."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from experiments import tasks
from experiments.context_tasks import near_terms
from experiments.downstream import network
from experiments.downstream.network import TAGGING, TEXTS, Ids, Settings, guessed, learned
from experiments.downstream.rivals import DEFAULT, FOLDER, OURS, TYPOS, WEIGHTED, Rivals, misspelled
from experiments.downstream.scores import entity_counts, word_counts
from experiments.downstream.sources import ASKED, FOLDED, LABELED, PAIRS, TAGGED, TREEBANK, Item, Task
from experiments.reproduce import code_of, code_without_text, digest
from pbos.adapters.sklearn import PbosVectorizer
from pbos.evaluation.words import true_ranks
from pbos.words.arrays import FloatMatrix, cosines, unit_rows

FILES = ("measures.py", "network.py", "rivals.py", "scores.py", "sources.py")
COMPOSED, RERANKED, EDITS = "default, composed index", "default, 100 nearest by edits", "edit distance"
FEATURES = 5
SENTENCES = {  # STS-B: whether words have typos, and whether the component that sentences share is removed
    "SIF": (False, False),
    "SIF, typos": (True, False),
    "SIF, component removed": (False, True),
    "SIF, component removed, typos": (True, True),
}
SHARE, LEAST = 1 / 3, 5  # of words that get a typo, and their letters
Measured = dict[str, Any]


def measured(rivals: Rivals, task: str, rival: str) -> Measured:
    """Return the arrays of a rival in a task by name, with the seconds that they took."""
    own = "".join(code_without_text(Path(__file__).parent / name) for name in FILES)
    code = digest(own, []) + code_of(DEFAULT if rival in (*OURS, "typos") else "nearest")
    file = FOLDER / "measured" / f"{task}-{rival}.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists():
        with np.load(file, allow_pickle=False) as found:
            if str(found["code"]) == code:
                return dict(found)
    start, compute = time.process_time(), measure_of(task)
    arrays = compute(rivals, task, rival)
    spent = time.process_time() - start
    np.savez_compressed(file, code=code, seconds=spent, **arrays)
    return {**arrays, "seconds": spent}


def measure_of(task: str) -> Callable[[Rivals, str, str], Measured]:
    """Return the function that measures a task."""
    if task in (*TAGGED, TREEBANK, *LABELED):
        return sentences
    if task in SENTENCES:
        return sentence_pairs
    return {"misspellings": misspellings, "hidden": hidden_words}.get(task, similarity)


# Sentences ------------------------------------------------------------------------------------------------------------


def sentences(rivals: Rivals, name: str, rival: str) -> Measured:
    """Train a network for each seed, and count what it finds in each test sentence, in groups."""
    found: dict[str, list[Any]] = {}
    rounds = rivals.sources.task(name)
    pools = name in LABELED
    for seed, task in enumerate(rounds):
        if seed == 0 or task is not rounds[seed - 1]:
            words = {word for items in (task.train, *task.test.values()) for item in items for word in item[0]}
            prepared = Prepared(rivals, rival, words, task, pools)
        *_, best = prepared.networks(task.train, TEXTS if pools else TAGGING, seed)
        for part, items in task.test.items():
            for group, counts in prepared.counts(best, items).items():
                found.setdefault(f"{part}, {group}".strip(", "), []).append(counts)
    in_folds = name in FOLDED  # then each item is measured once
    return {group: np.concatenate(one)[None] if in_folds else np.array(one) for group, one in found.items()}


class Prepared:
    """The vectors of all words of a task, and its sentences as rows of them."""

    def __init__(self, rivals: Rivals, rival: str, words: set[str], task: Task, pools: bool) -> None:
        self.pools, table = pools, rivals.table
        forms = sorted({word.lower() for word in words} if pools else words)
        self.row_of = {word: row for row, word in enumerate(forms, 1)}
        unknown = rivals.unknown(forms)
        own = dict(zip(unknown, rivals.vectors(rival, unknown), strict=True))
        self.unknown = {word for word in words if word.lower() in own}
        vectors = np.zeros((len(forms) + 1, table.dims + (0 if pools else FEATURES)), np.float32)
        for word, row in self.row_of.items():
            lower = word.lower()
            if lower in table:
                vectors[row, : table.dims] = table.vectors[table.row_of[lower]]
            elif lower in own:
                vectors[row, : table.dims] = own[lower]
            if not pools:
                vectors[row, table.dims :] = features(word, known=lower in table)
        self.vectors = vectors
        self.labels = sorted({label for _, labels in task.train for label in labels})

    def ids(self, items: list[Item]) -> Ids:
        """Return the rows of words."""
        return [np.array([self.row_of[word.lower() if self.pools else word] for word in words]) for words, _ in items]

    def networks(self, train: list[Item], settings: Settings, seed: int) -> Any:
        """Yield a network after each epoch."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        wanted = [np.array([numbers[label] for label in labels]) for _, labels in train]
        return learned(self.vectors, self.ids(train), wanted, len(self.labels), settings, seed, self.pools)

    def counts(self, trained: network.Network, items: list[Item]) -> dict[str, list[Any]]:
        """Return the counts of each item, in groups: all, with unknown words, and without."""
        guesses = guessed(trained, self.ids(items))
        groups: dict[str, list[Any]] = {"": [], "unknown": [], "known": []}
        for (words, labels), guess in zip(items, guesses, strict=True):
            got = [self.labels[number] for number in np.atleast_1d(guess)]
            if self.pools:
                has, right = not self.unknown.isdisjoint(words), got == labels
                numbers = [[right, 1, 1], [right * has, has, has], [right * (not has), not has, not has]]
            else:
                counted = entity_counts if "O" in self.labels else word_counts
                numbers = counted(words, labels, got, self.unknown)
            for group, one in zip(groups, numbers, strict=True):
                groups[group].append(one)
        return groups


def features(word: str, *, known: bool) -> list[bool]:
    """Return what the lower-case vector does not tell: capitals, digits, and whether the table has the word."""
    return [word[:1].isupper(), word.isupper(), not word.islower(), any(map(str.isdigit, word)), not known]


# Words ----------------------------------------------------------------------------------------------------------------


def misspellings(rivals: Rivals, _: str, rival: str) -> Measured:
    """Return the rank of the right word for each misspelling, as recall among the first and ten, and 1 / rank."""
    table = rivals.table
    every = [(bad, right) for bad, right in rivals.sources.misspellings() if bad not in table and right in table]
    chosen = [every[at] for at in np.sort(np.random.default_rng(0).permutation(len(every))[:ASKED])]
    asked, rows = [bad for bad, _ in chosen], np.array([table.row_of[right] for _, right in chosen])
    if rival == EDITS:
        ranks: Any = []
        for first in range(0, len(asked), 128):
            edits = cdist(
                asked[first : first + 128], table.words, scorer=Levenshtein.distance, dtype=np.uint8, workers=-1
            )
            for near, row in zip(edits, rows[first : first + 128], strict=True):
                ranks.append(1 + (near < near[row]).sum() + (near[:row] == near[row]).sum())  # of equals, the first
    else:
        model = rivals.model(rival if rival in ("bos", "pbos", *TYPOS) else DEFAULT)
        vectors = model.embed(asked)
        if rival == RERANKED:
            ranks = reranked(asked, rows, nearest(vectors, table.vectors), table.words)
        else:
            ranks = true_ranks(vectors, model.embed(table.words) if rival == COMPOSED else table.vectors, rows)
    found = np.array(ranks, np.float64)
    one = np.ones_like(found)
    edits = np.array([min(Levenshtein.distance(*pair), 3) for pair in chosen])
    groups = {"": one > 0, **{f"edits {n}": edits == n for n in (1, 2, 3)}}
    kinds = {"first": found < 2, "ten": found < 11, "MRR": 1 / found}
    return {
        f"{kind}, {group}".strip(", "): np.stack([hit * inside, one * inside, one * inside], axis=-1)[None]
        for kind, hit in kinds.items()
        for group, inside in groups.items()
    }


def nearest(vectors: FloatMatrix, given: FloatMatrix, n: int = 100) -> Any:
    """Return the rows of the n nearest given vectors, nearest first."""
    units, found = unit_rows(given).T, []
    for part in np.array_split(unit_rows(vectors), 1 + len(vectors) // 250):
        near = part @ units
        some = np.argpartition(-near, n, axis=1)[:, :n]
        found.append(np.take_along_axis(some, np.argsort(-np.take_along_axis(near, some, 1), axis=1), 1))
    return np.concatenate(found)


def reranked(asked: list[str], rows: Any, near: Any, words: list[str]) -> list[float]:
    """Return the rank of the right word among the nearest, sorted by edit distance; infinite if it is not there."""
    ranks = []
    for word, row, some in zip(asked, rows, near, strict=True):
        order = sorted(range(len(some)), key=lambda at: Levenshtein.distance(word, words[some[at]]))
        places = [place for place, at in enumerate(order, 1) if some[at] == row]
        ranks.append(float(places[0]) if places else np.inf)
    return ranks


def similarity(rivals: Rivals, name: str, rival: str) -> Measured:
    """Return cosines and people's scores: of pairs with an unknown term; or with all words hidden from training."""
    pairs, hidden = rivals.sources.pairs(name), name in PAIRS
    if hidden:
        words = sorted({word for pair in pairs for word in pair[:2]})
        own = dict(zip(words, rivals.vectors(rival, words, hidden=True), strict=True))
        near = cosines(np.array([own[one] for one, _, _ in pairs]), np.array([own[other] for _, other, _ in pairs]))
    else:
        words = rivals.unknown(word for pair in pairs for term in pair[:2] for word in term.split())
        pairs = [pair for pair in pairs if not {*pair[0].split(), *pair[1].split()}.isdisjoint(words)]
        vectors = unit_rows(rivals.vectors(DEFAULT if rival == WEIGHTED else rival, words))  # as those of known words
        if rival == WEIGHTED:
            vectors *= rivals.model(DEFAULT).confidence(words)[:, None]
        near = near_terms(rivals.table, pairs, dict(zip(words, vectors, strict=True)))
    return {"near": near.astype(np.float64), "human": np.array([score for *_, score in pairs])}


class Averages(PbosVectorizer):
    """Means of sentences, by SIF, with the vectors of the table and those of a rival."""

    def __init__(self, rivals: Rivals, rival: str, removes: bool) -> None:
        super().__init__(weighting="sif", counts="en", remove_component=removes)
        self.rivals, self.rival = rivals, rival

    @property
    def _n_features_out(self) -> int:
        return self.rivals.table.dims

    def _embed(self, words: Iterable[str], missing: Any = "error") -> FloatMatrix:
        words, table = list(words), self.rivals.table
        vectors = table.vectors[[table.row_of.get(word, 0) for word in words]].astype(np.float32)
        vectors[[word not in table for word in words]] = 0
        unknown = self.rivals.unknown(words)
        own = dict(zip(unknown, self.rivals.vectors(self.rival, unknown), strict=True))
        for row, word in enumerate(words):
            vectors[row] = own.get(word, vectors[row])
        return vectors


def sentence_pairs(rivals: Rivals, name: str, rival: str) -> Measured:
    """Return cosines and people's scores of the test sentences of STS-B."""
    has_typos, removes = SENTENCES[name]
    training = [text for *pair, _ in rivals.sources.sentences("train") for text in pair]
    averages, random = Averages(rivals, rival, removes).fit(training), np.random.default_rng(0)

    def edited(match: re.Match[str]) -> str:
        return misspelled(match[0], random) if random.random() < SHARE else match[0]

    pairs = rivals.sources.sentences("test")
    texts = [text.lower() for *pair, _ in pairs for text in pair]
    if has_typos:
        texts = [re.sub(rf"[a-z]{{{LEAST},}}", edited, text) for text in texts]
    found = averages.transform(texts)
    near = cosines(found[::2], found[1::2])
    return {"near": near.astype(np.float64), "human": np.array([score for *_, score in pairs])}


def hidden_words(rivals: Rivals, _: str, rival: str) -> Measured:
    """Return the cosines of hidden words with their true vectors, and their places among all words."""
    split = rivals.split
    composed = rivals.vectors(rival, split.hidden.words, hidden=True)
    near = cosines(composed, split.hidden.vectors).astype(np.float64)
    one = np.ones_like(near)
    groups = {"": one > 0, **{g: (split.places >= a) & (split.places < b) for g, (a, b) in tasks.GROUPS.items()}}
    return {
        name: np.stack([near * inside, one * inside, one * inside], axis=-1)[None] for name, inside in groups.items()
    }
