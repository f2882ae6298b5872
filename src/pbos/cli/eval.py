"""Commands that evaluate models: pbos eval ..."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import pbos
from pbos.cli import options
from pbos.cli.common import write_result

if TYPE_CHECKING:
    from pbos.evaluation.results import Embedder, Result


def similarity(
    files: Annotated[list[str], Argument(metavar="FILE", help="Benchmarks: word, word and score on each line.")],
    model: options.Model = None,
    targets: Annotated[str | None, Option(metavar="VECTORS", help="Word vectors to evaluate, not a model.")] = None,
    json: options.Json = False,
) -> None:
    """Evaluate word similarity: Spearman's rho x 100.

    Compares the cosines of pairs of words with the scores that people gave them. Columns are separated by tabs, commas
    or spaces; the score is the first number after the words. Published benchmarks can be read as they are.

    \b
    Examples:
      pbos eval similarity pairs.tsv
      pbos eval similarity simlex999.txt rareword.txt -m my-model
      pbos eval similarity pairs.tsv --targets vectors.vec
    """
    from pbos.evaluation import datasets, words

    embedder: Embedder = pbos.load(model) if targets is None else words.Targets(pbos.WordVectors.read(targets))
    for file in files:
        _show(words.similarity(embedder, datasets.read_pairs(file), Path(file).name), json)


def heldout(
    vectors: Annotated[str, Argument(metavar="VECTORS", help="Word vectors.")],
    counts: options.Counts = None,
    preset: options.PresetName = "default",
    number: Annotated[int, Option("-n", "--number", min=20, metavar="N", help="How many words to hold out.")] = 5000,
    seed: Annotated[int, Option(min=0, metavar="N", help="Determines which words are held out.")] = 0,
    json: options.Json = False,
) -> None:
    """Evaluate the vectors of held-out words.

    Holds out words at random, trains on the others, and compares the held-out words' vectors with the true ones.

    \b
    Examples:
      pbos eval heldout vectors.vec --counts counts.csv --preset bos
    """
    from pbos.evaluation import words

    given = pbos.WordVectors.read(vectors)
    _show(words.heldout(lambda kept: pbos.train(kept, counts, preset=preset), given, number, seed=seed), json)


def _show(result: Result, json: bool) -> None:
    rows = []
    for name, score in result.scores.items():
        interval = [] if score.low is None else [f"[{score.low:.3f}, {score.high:.3f}]"]
        rows.append((result.dataset, name, f"{score.value:.3f}", *interval))
    write_result(json, result.to_dict(), rows)
