"""Word similarity as in the paper: Spearman's rho x 100 between cosines and human judgments.

Reads and scores independently of `pbos.evaluation`, whose tests compare with it.
"""

from __future__ import annotations

from pathlib import Path

from scipy.stats import spearmanr

BENCHMARKS = {
    "WS353": "similarity/wordsim353.tab",
    "RareWord": "similarity/rareword.txt",
    "Card-660": "similarity/card660.tsv",
    "SimLex": "similarity/simlex999.txt",
}


def read_pairs(path: Path) -> list[tuple[str, str, float]]:
    """Read tab-separated word, word, score; words are lower-cased and a header is skipped."""
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        first, second, score = line.split("\t")[:3]
        if score.replace(".", "", 1).isdigit():
            pairs.append((first.lower(), second.lower(), float(score)))
    return pairs


def score(model, path: Path) -> float:
    """Score a model on one benchmark; a pair with a zero or near-zero vector has cosine 0."""
    first, second, human = zip(*read_pairs(path), strict=True)
    return 100 * float(spearmanr(model.similarity(first, second), human).statistic)


def scores(model, data: Path) -> dict[str, float]:
    """Score a model on all four benchmarks."""
    return {name: round(score(model, data / path), 1) for name, path in BENCHMARKS.items()}
