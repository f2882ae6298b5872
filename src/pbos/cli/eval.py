"""Commands that evaluate models: pbos eval ... (extra `eval`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import pbos
from pbos.cli.common import CountsOption, JsonOption, ModelOption, PresetOption, write_json, write_row
from pbos.files.paths import is_remote, local

if TYPE_CHECKING:
    from pbos.evaluation.results import Embedder, Result

DataOption = Annotated[
    Path | None,
    typer.Option("--data", envvar="PBOS_DATA", metavar="DIR", help="The folder of data sets."),
]


def data(data: DataOption = None, json: JsonOption = False) -> None:
    """List the data sets: name, path, description and web page.

    A missing data set is downloaded when it is first used, if that is possible without an account.

    \b
    Examples:
      pbos eval data
      pbos eval data --data my-data --json
    """
    from pbos.evaluation import datasets

    for entry, path in datasets.available(data):
        if json:
            facts = {"name": entry.name, "path": path and str(path), "description": entry.description}
            write_json({**facts, "page": entry.page, "license": entry.license})
        else:
            write_row(entry.name, path or "missing", entry.description, entry.page)


def similarity(
    sets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SET", help="Names of data sets, or files of your own with word, word, score in each line."
        ),
    ] = None,
    model: ModelOption = None,
    targets: Annotated[
        str | None, typer.Option(metavar="VECTORS", help="Evaluate word vectors instead of a model.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Evaluate word similarity: Spearman's rho x 100.

    The default is WS353, RareWord, Card-660 and SimLex999. WS353, WS353-rel, WS353-sim and SimLex999 also exist in
    English, German, Italian and Russian, rated anew: WS353-en, SimLex999-de and so on.

    \b
    Examples:
      pbos eval similarity --data my-data
      pbos eval similarity WS353-de SimLex999-de -m my-german-model
      pbos eval similarity pairs.tsv -m my-model
      pbos eval similarity pairs.tsv --targets vectors.vec
    """
    from pbos.evaluation import datasets, words

    embedder: Embedder = pbos.load(model) if targets is None else words.Targets(pbos.WordVectors.read(targets))
    for name in sets or datasets.ENGLISH:
        if is_remote(name) or local(name).exists() or Path(name).suffix:  # which no data set has
            pairs, label = datasets.read_pairs(name), Path(name).name
        else:
            pairs, label = datasets.pairs(name, data), datasets.get(name).name
        _show(words.similarity(embedder, pairs, label), json)


def affix(
    model: ModelOption = None, counts: CountsOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Evaluate how well the weights identify a word's affix.

    Macro precision, recall and F1.

    \b
    Examples:
      pbos eval affix --counts counts.csv
    """
    from pbos.cli.spelling import segmenter_of
    from pbos.evaluation import datasets, words

    _show(words.affix(segmenter_of(model, counts), datasets.read_affixes(data)), json)


def morphemes(
    model: ModelOption = None, counts: CountsOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Evaluate how well words are cut into morphemes.

    F1, precision and recall of the boundaries.

    \b
    Examples:
      pbos eval morphemes
      pbos eval morphemes -m my-model
    """
    from pbos.cli.spelling import segmenter_of
    from pbos.evaluation import datasets, words

    _show(words.morphemes(segmenter_of(model, counts), datasets.read_morphemes(data)), json)


def tagging(
    language: Annotated[str, typer.Argument(metavar="LANGUAGE", help="A language code, such as de.")],
    model: ModelOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Evaluate POS tagging on a Universal Dependencies treebank.

    Accuracy on all words and on unknown words.

    \b
    Examples:
      pbos eval tagging en --data my-data
      pbos eval tagging tr --data my-data -m my-turkish-model
    """
    from pbos.evaluation import datasets
    from pbos.evaluation.tagging import tagging as evaluate

    loaded = pbos.load(model)
    train, test = (datasets.sentences(language, part, data) for part in ("train", "test"))
    _show(evaluate(loaded, train, test, language=language, known=set(loaded.words)), json)


def heldout(
    vectors: Annotated[str, typer.Argument(metavar="VECTORS", help="Word vectors.")],
    counts: CountsOption = None,
    preset: PresetOption = "default",
    number: Annotated[int, typer.Option("-n", "--number", min=20, help="How many words to hold out.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Determines which words are held out.")] = 0,
    json: JsonOption = False,
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
    if json:
        write_json(result.to_dict())
        return
    for name, score in result.scores.items():
        interval = [] if score.low is None else [f"[{score.low:.3f}, {score.high:.3f}]"]
        write_row(result.dataset, name, f"{score.value:.3f}", *interval)
