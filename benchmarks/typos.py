"""Find the correct word for a misspelled one: word vectors compared with edit distance and difflib.

    python benchmarks/typos.py            # prints the table of docs/recipes/typo-search.md, in a few minutes

The vocabulary is the first 10,000 words of the included English model. A typo is a word of at least five letters with
one or two random edits that is not itself in the vocabulary.
"""

from __future__ import annotations

import argparse
import difflib
import random
import string
import time
from functools import partial

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

import pbos
from pbos.words.arrays import unit_rows

EDITS = ("deletion", "insertion", "substitution", "swap")
SHORTLIST = 100  # nearest words by vector that difflib ranks again


def misspell(word: str, edit: str, rng: random.Random) -> str:
    """Apply one edit at a random position of a word."""
    at, letter = rng.randrange(len(word) - (edit == "swap")), rng.choice(string.ascii_lowercase)
    if edit == "swap":
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    new = {"deletion": "", "insertion": letter + word[at], "substitution": letter}[edit]
    return word[:at] + new + word[at + 1 :]


def make_typos(words: list[str], n: int, edits: int, seed: int) -> list[tuple[str, str, str]]:
    """Return n tuples (typo, word, kind of its last edit); the kinds alternate."""
    rng, known = random.Random(seed), set(words)
    candidates = [word for word in words if len(word) >= 5 and word.isascii() and word.isalpha()]
    typos: list[tuple[str, str, str]] = []
    while len(typos) < n:
        word, edit = rng.choice(candidates), EDITS[len(typos) % len(EDITS)]
        typo = word
        for kind in [*rng.choices(EDITS, k=edits - 1), edit]:
            typo = misspell(typo, kind, rng)
        if typo not in known:
            typos.append((typo, word, edit))
    return typos


def with_typos(words: list[str], vectors, left_out: set[str], seed: int):
    """Add one typo of each kind for each word, with that word's vector, except the typos in `left_out`."""
    rng, known = random.Random(seed), {*words, *left_out}
    rows = {}
    for row, word in enumerate(words):
        for edit in EDITS if len(word) > 1 else ():
            typo = misspell(word, edit, rng)
            if typo and typo not in known:
                rows.setdefault(typo, row)
    return [*words, *rows], np.concatenate([vectors, vectors[list(rows.values())]])


def by_vectors(model, units, queries, n=10):
    """Return the rows of the n nearest words of each query by cosine, nearest first."""
    near = unit_rows(model.embed(queries)) @ units.T
    best = np.argpartition(-near, n, axis=1)[:, :n]
    return np.take_along_axis(best, np.argsort(-np.take_along_axis(near, best, 1), axis=1, kind="stable"), 1)


def by_difflib(words, row_of, queries, shortlists=None):
    """Return the rows of difflib's 10 closest words, among all words or a shortlist; -1 if there are fewer."""
    found = np.full((len(queries), 10), -1)
    for number, query in enumerate(queries):
        among = words if shortlists is None else [words[row] for row in shortlists[number]]
        close = difflib.get_close_matches(query, among, 10, **({} if shortlists is None else {"cutoff": 0}))
        found[number, : len(close)] = [row_of[word] for word in close]
    return found


def by_edits(words, queries, limit):
    """Return the rows of the 10 words with the smallest edit distance; ties go to the more frequent word."""
    distances = cdist(queries, words, scorer=Levenshtein.distance, score_cutoff=limit)
    return np.argsort(distances, axis=1, kind="stable")[:, :10]


def recalls(found, right):
    """Return recall@1 and recall@10 in percent, as text."""
    hits = found == right[:, None]
    return f"{100 * hits[:, 0].mean():.1f} / {100 * hits.any(axis=1).mean():.1f}"


def measure(size: int, n: int, n_difflib: int, seed: int) -> None:
    """Print the recall of each method, overall and by the kind of the last edit, and its time per query."""
    english = pbos.load()
    words, row_of = english.words[:size], {word: row for row, word in enumerate(english.words[:size])}
    vectors = english.embed(words)
    typos = {edits: make_typos(words, n, edits, seed) for edits in (1, 2)}
    asked = {typo for made in typos.values() for typo, _, _ in made}
    models = {
        "the included English model": english,
        "a model of the vocabulary": pbos.train((words, vectors)),
        "a model of the vocabulary and typos": pbos.train(with_typos(words, vectors, asked, seed + 1)),
    }
    print(f"| search | edits | typos | all: recall@1 / @10 | {' | '.join(EDITS)} | time per query |\n|{'---|' * 9}")
    for edits, made in typos.items():
        queries = [typo for typo, _, _ in made]
        right = np.array([row_of[word] for _, word, _ in made])
        kinds = np.array([kind for _, _, kind in made])
        methods = {}
        for name, model in models.items():
            units = unit_rows(model.embed(words))
            methods[name] = partial(by_vectors, model, units)
        methods[f"the same, then difflib on the nearest {SHORTLIST}"] = lambda queries, model=model, units=units: (
            by_difflib(words, row_of, queries, by_vectors(model, units, queries, SHORTLIST))
        )
        methods["edit distance"] = partial(by_edits, words, limit=edits + 2)
        methods["difflib on all words"] = lambda queries: by_difflib(words, row_of, queries[:n_difflib])
        for name, method in methods.items():
            start = time.perf_counter()
            found = method(queries)
            ms = 1e3 * (time.perf_counter() - start) / len(found)
            answers, of_kinds = right[: len(found)], kinds[: len(found)]
            parts = [recalls(found[of_kinds == kind], answers[of_kinds == kind]) for kind in EDITS]
            cells = [name, edits, f"{len(found):,}", recalls(found, answers), *parts, f"{ms:.2g} ms"]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=10_000, help="size of the vocabulary")
    parser.add_argument("--typos", type=int, default=2000, help="number of typos with one edit, and with two")
    parser.add_argument("--difflib", type=int, default=400, help="how many of these to run difflib on, which is slow")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    measure(options.words, options.typos, options.difflib, options.seed)
