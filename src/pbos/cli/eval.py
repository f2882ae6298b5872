"""Commands that measure models: pbos eval ... (extra `eval`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pbos.cli.common import JsonOption, ModelOption, lines_of, load_model, note, prepare, write, write_json
from pbos.cli.look import CountsOption

if TYPE_CHECKING:
    from pbos.evaluation.results import Embedder, Result

DataOption = Annotated[
    Path | None,
    typer.Option("--data", envvar="PBOS_DATA", metavar="DIR", help="Where the data sets are."),
]


def data(data: DataOption = None, json: JsonOption = False) -> None:
    """List the data sets: which are there, which are missing, and where they come from.

    \b
    Examples:
      pbos eval data
      pbos eval data --data my-data --json
    """
    from pbos.evaluation import datasets

    for entry, path in datasets.available(data):
        if json:
            where = {"path": path and str(path), "address": entry.address}
            write_json({"name": entry.name, **where, "licence": entry.licence})
        else:
            write(f"{entry.name}\t{path or 'missing'}\t{entry.description}\t{entry.address}")


def similarity(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Your own pairs: word, word, score.")
    ] = None,
    model: ModelOption = None,
    targets: Annotated[Path | None, typer.Option(metavar="VECTORS", help="Measure word vectors alone.")] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Measure word similarity: Spearman's rho x 100 on WS353, RareWord, Card-660 and SimLex-999, or on your own pairs.

    \b
    Examples:
      pbos eval similarity --data my-data
      pbos eval similarity -m my-model pairs.tsv
      pbos eval similarity --targets vectors.vec pairs.tsv
    """
    from pbos.evaluation import datasets, words

    prepare()
    embedder: Embedder = load_model(model) if targets is None else _targets(targets)
    if files:
        benchmarks = {file.name: datasets.read_pairs(file) for file in files}
    else:
        benchmarks = {name: datasets.pairs(name, data) for name in ("WS353", "RareWord", "Card-660", "SimLex999")}
    for name, pairs in benchmarks.items():
        _show(words.similarity(embedder, pairs, name), json)


LanguageArgument = Annotated[str, typer.Argument(metavar="LANGUAGE", help="A language code, such as de.")]


def multilingual(
    language: LanguageArgument, model: ModelOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Measure word similarity in another language: en, de, it or ru.

    \b
    Examples:
      pbos eval multilingual de -m my-german-model
    """
    from pbos.evaluation import words

    for result in words.multilingual(load_model(model), language, data):
        _show(result, json)


def segmentation(model: ModelOption = None, counts: CountsOption = None, json: JsonOption = False) -> None:
    """Show Table 1 of the paper: the segmentations and weights of four words.

    \b
    Examples:
      pbos eval segmentation --counts unigram_freq.csv
    """
    from pbos.cli.look import segmenter_of
    from pbos.evaluation import words

    result = words.segmentation(segmenter_of(model, counts))
    if json:
        write_json(result.to_dict())
        return
    for word, found in result.details["words"].items():
        for kind, items in found.items():
            for text, share in items:
                write(f"{word}\t{kind}\t{text}\t{share:.3f}")


def affix(
    model: ModelOption = None,
    counts: CountsOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Measure how well the weights find a word's affix.

    \b
    Examples:
      pbos eval affix --counts unigram_freq.csv
    """
    from pbos.cli.look import segmenter_of
    from pbos.evaluation import datasets, words

    _show(words.affix(segmenter_of(model, counts), datasets.read_affixes(data)), json)


def tagging(
    language: LanguageArgument, model: ModelOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Measure POS tagging on a Universal Dependencies treebank.

    \b
    Examples:
      pbos eval tagging en
      pbos eval tagging tr -m my-turkish-model
    """
    from pbos.evaluation import datasets
    from pbos.evaluation.tagging import tagging as measure

    loaded = load_model(model)
    train, test = (datasets.sentences(language, part, data) for part in ("train", "test"))
    _show(measure(loaded, train, test, language=language, known=set(loaded.words)), json)


def heldout(
    vectors: Annotated[Path, typer.Argument(metavar="VECTORS", help="Word vectors to hide words of.")],
    counts: Annotated[str | None, typer.Option("-c", "--counts", help="Word counts: a file, or a code.")] = None,
    preset: Annotated[str, typer.Option(help="default, pbos, pbos-n or bos.")] = "default",
    number: Annotated[int, typer.Option("-n", "--number", min=20, help="How many words to hide.")] = 5000,
    seed: Annotated[int, typer.Option(help="Fixes which.")] = 0,
    json: JsonOption = False,
) -> None:
    """Hide words at random, train on the others, and see how near the hidden words' vectors come.

    \b
    Examples:
      pbos eval heldout vectors.vec --counts counts.csv --preset bos
    """
    prepare()
    import pbos
    from pbos.evaluation import words

    given = pbos.WordVectors.read(vectors)
    _show(words.heldout(lambda kept: pbos.train(kept, counts, preset=preset), given, number, seed=seed), json)


def speed(
    words: Annotated[Path, typer.Argument(metavar="FILE", help="Words to embed, one a line (- for stdin).")],
    model: ModelOption = None,
    json: JsonOption = False,
) -> None:
    """Measure how long a word takes, one by one and in a batch, and how large the model is.

    \b
    Examples:
      pbos eval speed words.txt -m my-model
    """
    from pbos.evaluation import words as tasks

    _show(tasks.speed(load_model(model), list(lines_of(words)), dataset=words.name), json)


def reproduce(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Such as affix, similarity, tagging; or all.")] = "all",
    row: Annotated[str | None, typer.Option(help="Compute one row only, by its name.")] = None,
    data: DataOption = None,
    cache: Annotated[Path, typer.Option(help="Where trained models and results are kept.")] = Path("results/.cache"),
    output: Annotated[Path, typer.Option("-o", "--output", help="Where README.md and figures go.")] = Path("results"),
    vectors: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Train on this file (also Polyglot's .pkl) instead of the targets."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="For KVQ-FH: cpu or cuda.")] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Leave out rows of this model (repeat for more).")] = None,
) -> None:
    """Compute the paper's tables and write them, ours beside the paper's; goes on where it was stopped.

    \b
    Examples:
      pbos eval reproduce affix
      pbos eval reproduce all --skip kvq --skip fasttext
      pbos eval reproduce --row similarity-minilm-en-pbos
      pbos eval reproduce --row similarity-minilm-en-pbos --vectors GoogleNews.bin.gz -o originals
      pbos eval reproduce --row similarity-selftrained-en-pbos --vectors polyglot-en.pkl -o originals
    """
    prepare()
    from pbos.errors import InputError
    from pbos.evaluation.report import write_report
    from pbos.evaluation.reproduce import Workshop, read_rows
    from pbos.progress import progress

    workshop = Workshop(data, cache, originals=vectors, device=device)
    rows = [one for one in read_rows(table if row is None else "all") if row in (None, one.name)]
    rows = [one for one in rows if one.model not in (skip or [])]
    if not rows:
        raise InputError(f"no row is named {row!r}")
    with progress("reproducing", len(rows)) as advance:
        for one in rows:
            workshop.run(one, show=lambda line: advance(0, note=line))
            advance(1)
    for file in write_report(workshop, output):
        note(f"wrote {file}")


def _targets(path: Path) -> Embedder:
    from pbos.evaluation.baselines import Targets
    from pbos.vectors import WordVectors

    return Targets(WordVectors.read(path))


def _show(result: Result, json: bool) -> None:
    if json:
        write_json(result.to_dict())
        return
    for name, score in result.scores.items():
        interval = "" if score.low is None else f"\t[{score.low:.3f}, {score.high:.3f}]"
        write(f"{result.dataset}\t{name}\t{score.value:.3f}{interval}")
