"""The nearest of a million words: an approximate index (usearch) beside an exact search with NumPy.

    pip install usearch wordfreq
    python benchmarks/search.py            # prints the table of docs/recipes/search.md, in about five minutes

The words are the most frequent ones of eight languages in `wordfreq`; a thousand others are asked for, which are not in
the index. All vectors are those of the included English model.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import wordfreq
from usearch.index import Index

import pbos
from pbos.words.arrays import unit_rows

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "pl")
ASKED, NEAREST = 1000, 10


def words(number: int) -> tuple[list[str], list[str]]:
    """Return the words of the index, and others to ask for."""
    lists = [wordfreq.top_n_list(language, 1_000_000, wordlist="best") for language in LANGUAGES]
    found = sorted({word for listed in lists for word in listed if word.isalpha()})
    random.Random(0).shuffle(found)
    if len(found) < number + ASKED:
        raise SystemExit(f"only {len(found):,} words; ask for fewer")
    return found[:number], found[number : number + ASKED]


def best_of(rounds: int, asked: list[str], answer: Callable[[str], object]) -> float:
    """Return the milliseconds per word of the fastest round."""
    best = np.inf
    for _ in range(rounds):
        start = time.perf_counter()
        for word in asked:
            answer(word)
        best = min(best, (time.perf_counter() - start) / len(asked))
    return 1000 * float(best)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=1_000_000, help="the number of words; default: %(default)s")
    number = parser.parse_args().n
    model = pbos.load()
    known, asked = words(number)
    start = time.perf_counter()
    vectors = unit_rows(model.embed(known))
    print(f"{number:,} words x {model.dims} embedded in {time.perf_counter() - start:.1f} s, {os.cpu_count()} cores")

    queries = unit_rows(model.embed(asked))
    nearest = [set(np.argpartition(-(vectors @ query), NEAREST)[:NEAREST].tolist()) for query in queries]
    exact = best_of(
        1, asked[:100], lambda word: np.argpartition(-(vectors @ unit_rows(model.embed([word]))[0]), NEAREST)
    )
    index = Index(ndim=model.dims, metric="cos", dtype="f16")
    start = time.perf_counter()
    index.add(np.arange(number), vectors)
    built = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        index.save(str(Path(folder, "index")))
        size = Path(folder, "index").stat().st_size
    print(f"index built in {built:.0f} s, a file of {size / 1e6:,.0f} MB (as float32: {vectors.nbytes / 1e6:,.0f} MB)")
    print("| search | a word | recall@10 |\n|---|---|---|")
    print(f"| exact, NumPy | {exact:.1f} ms | 1 |")
    for effort in (64, 128, 256):
        index.expansion_search = effort
        found = [index.search(query, NEAREST).keys for query in queries]
        recall = np.mean([len(set(got.tolist()) & want) / NEAREST for got, want in zip(found, nearest, strict=True)])
        per_word = best_of(3, asked, lambda word: index.search(model.embed([word])[0], NEAREST))
        print(f"| usearch, expansion_search={effort} | {per_word:.2f} ms | {recall:.3f} |", flush=True)


if __name__ == "__main__":
    main()
