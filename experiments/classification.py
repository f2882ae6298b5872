"""When do vectors help a classifier? Run `python -m experiments.classification` (a quarter of an hour).

Texts are first lines of docstrings, and the classes are their packages. They are classified by logistic regression on
TF-IDF of words, on TF-IDF of character n-grams, and on vectors of the included English model: with few or many labeled
texts, and with a typo in every longer word of the texts to classify.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from pbos.adapters.sklearn import PbosVectorizer

PACKAGES = ("numpy", "scipy", "sklearn", "torch")
TEXTS, LABELED, SEEDS = 1500, (5, 20, 100, 500), 10  # of each package
WEIGHTS = {"vectors": 0.05}  # so that no side outweighs the other
LEAST_WORDS, LONG = 4, 5  # words of a text; letters of a word that gets a typo


def docstrings(package: str) -> Iterator[str]:
    """Yield the first lines of the docstrings of a package."""
    found: Any = importlib.util.find_spec(package)
    for file in sorted(Path(found.origin).parent.rglob("*.py")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(file.read_bytes())
        except SyntaxError:  # for a later Python
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
                yield text.partition("\n")[0]


def with_typos(text: str, rng: np.random.Generator) -> str:
    """Swap two letters inside of each longer word."""
    words = text.split()
    for at, word in enumerate(words):
        if len(word) >= LONG and word.isalpha():
            place = int(rng.integers(1, len(word) - 2))
            words[at] = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return " ".join(words)


def classifiers() -> dict[str, Any]:
    """Return the pipelines; how strong each is regularized was chosen on other texts of these packages."""

    def vectors() -> Any:
        return make_pipeline(PbosVectorizer(), StandardScaler())

    words, letters = TfidfVectorizer(sublinear_tf=True), TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5))
    return {
        "TF-IDF of words": make_pipeline(words, LogisticRegression(C=3, max_iter=500)),
        "TF-IDF of letters": make_pipeline(letters, LogisticRegression(C=3, max_iter=500)),
        "vectors": make_pipeline(vectors(), LogisticRegression(C=0.01, max_iter=500)),
        "TF-IDF of words, and vectors": make_pipeline(
            FeatureUnion(
                [("words", TfidfVectorizer(sublinear_tf=True)), ("vectors", vectors())], transformer_weights=WEIGHTS
            ),
            LogisticRegression(C=3, max_iter=500),
        ),
    }


def main() -> None:
    """Print the tables."""
    rng = np.random.default_rng(0)
    texts, labels = list[str](), list[int]()
    for label, package in enumerate(PACKAGES):
        long = sorted({text for text in docstrings(package) if len(text.split()) >= LEAST_WORDS})
        chosen = rng.choice(long, TEXTS, replace=False).tolist()
        texts, labels = texts + chosen, labels + [label] * TEXTS
    of = np.array(labels)
    sys.stdout.write(
        "| labeled texts per package | " + " | ".join(classifiers()) + " |\n|---|" + "---|" * len(classifiers()) + "\n"
    )
    for typos in (False, True):
        for n in LABELED:
            scores: dict[str, list[float]] = {name: [] for name in classifiers()}
            for seed in range(SEEDS):
                drawn = np.random.default_rng(seed)
                train = np.concatenate(
                    [drawn.choice(np.flatnonzero(of == label), n, replace=False) for label in range(4)]
                )
                test = np.setdiff1d(np.arange(of.size), train)[seed % 4 :: 4]
                asked = [with_typos(texts[at], drawn) if typos else texts[at] for at in test]
                for name, classifier in classifiers().items():
                    classifier.fit([texts[at] for at in train], of[train])
                    scores[name].append(classifier.score(asked, of[test]))
            cells = [f"{np.mean(one):.3f} ± {2 * np.std(one, ddof=1) / SEEDS**0.5:.3f}" for one in scores.values()]
            sys.stdout.write(f"| {n}{', typos' if typos else ''} | {' | '.join(cells)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
