"""Similarity of sentences: Spearman's rho x 100 between cosines and human scores.

    python benchmarks/sentences.py DATA --glove FOLDER --minilm FOLDER      # a few minutes; needs model2vec[distill]

This prints the table of docs/recipes/sentence-transformers.md. DATA is a folder with `stsb-en-test.csv` and
`stsb-en-train.csv` (github.com/PhilipMay/stsb-multi-mt, folder `data`) and `SICK_test_annotated.txt`
(github.com/brmson/dataset-sts, folder `data/sts/sick2014`). The training sentences are for the common component; their
scores are not used, and no setting was chosen on this data. --glove is the table `glove-6b-100d` of `make real-data`,
--minilm a folder with the sentence transformer all-MiniLM-L6-v2.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
from pathlib import Path

from scipy.stats import spearmanr
from typos import EDITS, misspell

import pbos
from pbos.adapters.sklearn import PbosVectorizer

SIF = {"weighting": "sif", "counts": "en"}
SETTINGS = {"mean": {}, "SIF": SIF, "SIF, component removed": {**SIF, "remove_component": True}}


class Table(PbosVectorizer):
    """The same with a plain table of vectors: words that it does not have are left out."""

    def _embed(self, words, missing="error"):
        rows = [self.model.row_of.get(word, -1) for word in words]
        vectors = self.model.table.vectors[rows].astype("f4")
        vectors[[row < 0 for row in rows]] = 0
        return vectors

    @property
    def _n_features_out(self):
        return self.model.table.dims


class Lookup:
    """A table of vectors and the row of each word."""

    def __init__(self, table: pbos.WordVectors):
        self.table, self.row_of = table, {word: row for row, word in enumerate(table.words)}


def read_stsb(path: Path) -> list[tuple[str, str, float]]:
    """Read first sentence, second sentence, score."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [(first, second, float(score)) for first, second, score in csv.reader(stream)]


def read_sick(path: Path) -> list[tuple[str, str, float]]:
    """Read the relatedness of pairs."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, dialect="excel-tab", quoting=csv.QUOTE_NONE)
        return [(row["sentence_A"], row["sentence_B"], float(row["relatedness_score"])) for row in rows]


def with_typos(pairs: list[tuple[str, str, float]]) -> list[tuple[str, str, float]]:
    """Put one random edit into a third of all words of at least five letters."""
    rng = random.Random(0)

    def edit(match: re.Match[str]) -> str:
        return misspell(match[0], rng.choice(EDITS), rng) if rng.random() < 1 / 3 else match[0]

    return [(*(re.sub(r"[a-zA-Z]{5,}", edit, text) for text in pair), score) for *pair, score in pairs]


def encoders(options: argparse.Namespace, texts: list[str]):
    """Yield names and functions from texts to vectors."""
    models = {"pbos, English model": (PbosVectorizer, pbos.load())}
    if options.glove:
        glove = pbos.WordVectors.read(options.glove)
        models["pbos, trained on GloVe"] = PbosVectorizer, pbos.train(glove, progress=False)
        models["GloVe 6B, 100 dimensions"] = Table, Lookup(glove)
    for name, (kind, model) in models.items():
        for how, settings in SETTINGS.items():
            yield f"{name}: {how}", kind(model, **settings).fit(texts).transform
    if options.minilm:
        from model2vec.distill import distill
        from sentence_transformers import SentenceTransformer

        yield "model2vec, distilled from MiniLM", distill(str(options.minilm)).encode
        yield "all-MiniLM-L6-v2", SentenceTransformer(str(options.minilm)).encode


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "--glove", "--minilm"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    stsb, sick = read_stsb(options.data / "stsb-en-test.csv"), read_sick(options.data / "SICK_test_annotated.txt")
    tasks = {"STS-B": stsb, "SICK": sick, "STS-B with typos": with_typos(stsb)}
    training = [text for *pair, _ in read_stsb(options.data / "stsb-en-train.csv") for text in pair]
    print(f"| | {' | '.join(tasks)} |\n|---|{'---|' * len(tasks)}")
    for name, encode in encoders(options, training):
        scores = []
        for pairs in tasks.values():
            first, second, human = zip(*pairs, strict=True)
            found = pbos.cosines(*(encode(list(texts)) for texts in (first, second)))
            scores.append(f"{100 * spearmanr(found, human).statistic:.1f}")
        print(f"| {name} | {' | '.join(scores)} |", flush=True)


if __name__ == "__main__":
    main()
