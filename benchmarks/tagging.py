"""Compare `experiments.tagging` with scikit-learn on full treebanks: accuracy and time.

    python benchmarks/tagging.py [--ours] [language ...]        (default: en sv; --ours skips scikit-learn)

scikit-learn gets the same features as a dense float64 matrix and runs L-BFGS until its gradient is small.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from measure import DATA

import pbos
from experiments import datasets
from experiments.tagging import Windows, contexts, flatten, tagging, vector_table


def main(languages: list[str], with_sklearn: bool) -> None:
    print("| language | training words | test words | tagger | accuracy | seconds |\n|" + "---|" * 6, flush=True)
    for language in languages:
        folder = DATA / "vectors" / f"selftrained-{language}"
        model = pbos.train(folder, folder / "counts.tsv.gz", preset="bos", progress=False)
        train, test = (datasets.sentences(language, part, DATA) for part in ("train", "test"))
        run(language, "pbos", ours, model, train, test)
        if with_sklearn:
            run(language, "scikit-learn", sklearn, model, train, test)


def run(language: str, name: str, tagger, model, train, test) -> None:
    """Time a tagger and print its row."""
    started = time.perf_counter()
    accuracy = tagger(model, train, test)
    seconds = time.perf_counter() - started
    sizes = f"{sum(map(len, train)):,} | {sum(map(len, test)):,}"
    print(f"| {language} | {sizes} | {name} | {100 * accuracy:.2f} | {seconds:.1f} |", flush=True)


def ours(model, train, test) -> float:
    """Return the accuracy of our tagger."""
    return tagging(model, train, test, language="any").main.value


def sklearn(model, train, test) -> float:
    """Return the accuracy of scikit-learn's logistic regression on dense features."""
    from sklearn.linear_model import LogisticRegression

    (x, y), (test_x, test_y) = dense(model, train, test)
    return LogisticRegression(C=1.0, tol=1e-5, max_iter=5000).fit(x, y).score(test_x, test_y)


def dense(model, *parts):
    """Return the features, float64 (n_tokens, 5 * dims), and the tags of each data set."""
    flat = [flatten(part, "treebank", lowercase=True) for part in parts]
    words = sorted({word for tokens in flat for word in tokens.words})
    vectors = vector_table(model, words)
    rows = {word: row for row, word in enumerate(words, 1)}
    windows = (Windows(vectors, contexts(tokens, rows, window=2)) for tokens in flat)
    return [(w.features(slice(None))[:, :-1], np.array(tokens.tags)) for w, tokens in zip(windows, flat, strict=True)]


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main([a for a in arguments if a != "--ours"] or ["en", "sv"], "--ours" not in arguments)
