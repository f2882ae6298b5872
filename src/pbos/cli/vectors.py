"""Commands about vectors: embed, neighbors, similarity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from typer import Option

import pbos
from pbos.cli import options
from pbos.cli.common import (
    Uncovered,
    batches,
    check_column,
    lines_of,
    name_of,
    note,
    warn_missing,
    words_from,
    write,
    write_result,
)
from pbos.errors import InputError
from pbos.files.paths import is_folder, is_table
from pbos.jobs.progress import Advance
from pbos.settings import MISSING
from pbos.tables.formats import OUTPUT_FORMATS, choose_format

ExactOption = Annotated[bool, Option("--exact", help="Use the given vectors of training words.")]
TargetsOption = Annotated[
    str | None, Option("--vectors", metavar="FILE", help="As --exact, with the words and vectors of this file.")
]


def embed(
    words: options.Words = None,
    model: options.Model = None,
    input: options.Input = None,
    output: Annotated[
        str | None, Option("-o", "--output", metavar="FILE", help="The file, whose suffix is its format, or a FOLDER/.")
    ] = None,
    column: options.Column = None,
    vector_column: Annotated[str, Option(metavar="NAME", help="Tables: the new column.")] = "vector",
    confidence: Annotated[
        bool,
        Option("--confidence", help="Add how far to trust each vector: a number after the word, a field, a column."),
    ] = False,
    exact: ExactOption = False,
    vectors: TargetsOption = None,
    missing: Annotated[
        str | None,
        options.one_of(
            (*MISSING, "skip", "null"),
            "Blank lines, and nulls in tables: stop, write zeros, leave them out, or write null (tables); by default "
            "null in tables, zeros in .npy, and elsewhere they are left out.",
        ),
    ] = None,
    threads: options.Threads = None,
    scheduler: options.Scheduler = None,
    json: options.Json = False,
) -> None:
    """Write the vector of every word: lines of a word and numbers.

    The input is a text file with one word per line, or a table (.parquet, .arrow, .feather, .csv, .tsv; extra arrow).
    The output is a table (.parquet, .arrow, .feather), which keeps the other columns; JSON lines (.jsonl); a matrix
    (.npy); or a file of word vectors (.vec, .txt, .bin, .glove, .npz, .kv, .safetensors). Words are streamed, so memory
    does not grow with their number, except for the last three formats. The confidence of a word is the expected cosine,
    0 to 1, of its vector and the one it would have had as a training word.

    If the output is a folder, the input can be many files, such as 'words/*.parquet'. The folder gets Parquet files of
    about a million words each, and is complete when it has a file _SUCCESS. Run the same again to continue after an
    interruption. With --scheduler the files are made on a cluster; model, input and output are on storage that all of
    its workers share.

    \b
    Examples:
      pbos embed unfriendliest --json
      cat words.txt | pbos embed > vectors.txt
      pbos embed --confidence -i words.txt | cut -d " " -f 1-2
      pbos embed -i words.txt -o vectors.vec
      pbos embed -i words.csv --column word -o vectors.parquet
      pbos embed -i 'words/*.parquet' -o vectors/ --scheduler tcp://10.0.0.1:8786
      pbos embed -m my-model --vectors vectors.vec -i words.txt > vectors.txt
    """
    to_folder = scheduler is not None or (output is not None and (output.endswith("/") or is_folder(output)))
    if to_folder and (words or input is None or output is None):
        raise InputError("a folder of vectors is made from files: give them with --input, and the folder with --output")
    if to_folder or output is None:
        format = "folder" if to_folder else "jsonl" if json else "text"
    else:
        format = choose_format(output, formats=OUTPUT_FORMATS)
    to_table = format in ("table", "folder")
    if not to_table:
        check_column(column, input)
    if missing == ("skip" if to_table else "null"):
        raise InputError(f"--missing {missing} is for {'files that are no tables' if to_table else 'tables'}")
    if json and format != "jsonl":
        raise InputError("--json writes JSON lines; name the output .jsonl, or leave it out to write to stdout")
    if confidence and not (to_table or format == "jsonl" or output is None):
        raise InputError("--confidence needs a table or .jsonl as output file, or text on stdout")
    missing = missing or ("null" if to_table else "zeros" if format == "npy" else "skip")
    given: dict[str, Any] = {"exact": exact or vectors is not None, "threads": threads}
    chosen: Any = model if to_folder and vectors is None else _load(model, vectors)
    if not to_table:
        _write_rows(chosen, words_from(words, input, column, missing), output, format, confidence=confidence, **given)
        return
    given |= {
        "column": column,
        "vector_column": vector_column,
        "confidence_column": "confidence" if confidence else None,
        "missing": missing,
    }
    if to_folder:
        done = pbos.embed_files(chosen, str(input), str(output), scheduler=scheduler, **given)
        if done.kept:
            note(f"{done.kept} of {done.kept + done.parts} parts were there already")
    else:
        from pbos.adapters.arrow import embed_table
        from pbos.tables.columns import table_of_words

        table: Any = input
        if words or input is None or not is_table(input):
            table = table_of_words(words_from(words, input, None, missing), column or "word")
        done = embed_table(chosen, table, str(output), **given)
    if to_folder or table is input:  # otherwise `words_from` has warned
        warn_missing(done.missing, missing)
    Uncovered(done.uncovered, done.examples).warn()


def _write_rows(
    model: pbos.Model, words: Iterator[str], output: str | None, format: str, *, confidence: bool, **given: Any
) -> None:
    """Write words and their vectors, batch by batch, to a file that is no table or to stdout."""
    from pbos.jobs.progress import progress
    from pbos.tables.writing import rows, without_bad_words, write_batches

    uncovered, done = Uncovered(), 0

    def embedded(advance: Advance) -> Iterator[tuple[Any, ...]]:
        nonlocal done
        for batch in batches(words):
            vectors = model.embed(batch, missing="zeros", **given)
            uncovered.add(batch, vectors)
            trust = [model.confidence(batch, missing="zeros", threads=given["threads"])] if confidence else []
            yield batch, vectors, *trust
            done += len(batch)
            advance(len(batch), note=f"{done:,} words")

    with progress("embedding", None, None if output else False) as advance:  # no bar in the middle of vectors
        found = without_bad_words(format, embedded(advance))
        if output is not None:
            write_batches(output, format, found, model.dims)
        else:
            for row in rows(format, found):
                write(row.decode().removesuffix("\n"))
    uncovered.warn()


def _load(model: str | None, vectors: str | None) -> pbos.Model:
    """Load a model, with the given vectors of a file if there is one."""
    loaded = pbos.load(model)
    return loaded if vectors is None else loaded.with_targets(vectors)


def neighbors(
    words: options.Words = None,
    model: options.Model = None,
    input: options.Input = None,
    column: options.Column = None,
    number: Annotated[int, Option("-n", "--number", min=1, help="The number of neighbors.")] = 10,
    positive: Annotated[list[str] | None, Option(metavar="WORD", help="A word to add; can be repeated.")] = None,
    negative: Annotated[list[str] | None, Option(metavar="WORD", help="A word to subtract.")] = None,
    among: Annotated[str | None, Option(metavar="FILE", help="Search these words, not the training words.")] = None,
    exact: ExactOption = False,
    vectors: TargetsOption = None,
    json: options.Json = False,
) -> None:
    """List the words nearest to a word, or to a sum of words.

    The columns are the word, a near word and their cosine; then, if the model has it, the confidence of the word: how
    far to trust its vector, 0 to 1. A word without any known subword has no neighbors.

    \b
    Examples:
      pbos neighbors unfriendliest
      pbos neighbors -n 3 --json covfefe
      pbos neighbors --positive king --positive woman --negative man
      pbos neighbors -i queries.txt --among my-words.txt
    """
    combined = bool(positive or negative)
    if combined and (words or input is not None):
        raise InputError("give words, or --positive and --negative ones, not both")
    check_column(column, input, among)
    loaded, exact = _load(model, vectors), exact or vectors is not None
    searched = None if among is None else list(words_from(None, among, column))
    given: dict[str, Any] = {"among": searched, "exact": exact}
    uncovered = Uncovered()

    def show(asked: dict[str, Any], label: str, near: list[tuple[str, float]]) -> None:
        trust = [] if asked.get("confidence") is None else [f"{asked['confidence']:.3f}"]
        found = [{"word": word, "cosine": cosine} for word, cosine in near]
        rows = [(label, word, f"{cosine:.3f}", *trust) for word, cosine in near]
        write_result(json, {**asked, "neighbors": found}, rows)

    if combined:
        plus, minus = (list(words_from(signed, None)) if signed else [] for signed in (positive, negative))
        uncovered.add(plus + minus, loaded.embed(plus + minus, exact=exact))
        label = " + ".join(plus) + "".join(f" - {word}" for word in minus)
        near = loaded.neighbors(n=number, positive=plus, negative=minus, **given)
        show({"positive": plus, "negative": minus}, label.strip(), near)
    else:
        for batch in batches(words_from(words, input, column)):
            uncovered.add(batch, loaded.embed(batch, exact=exact))
            trusts = loaded.confidence(batch).tolist() if loaded.has_confidence else [None] * len(batch)
            for word, trust, near in zip(batch, trusts, loaded.neighbors(batch, number, **given), strict=True):
                show({"word": word, "confidence": trust}, word, near)
    uncovered.warn()


def similarity(
    words: options.Words = None,
    model: options.Model = None,
    input: options.Input = None,
    json: options.Json = False,
) -> None:
    """Print the cosine of two words, or of many pairs.

    Pairs are lines of two words separated by a tab. The cosine is 0 for a word without any known subword.

    \b
    Examples:
      pbos similarity king queen
      pbos similarity -i pairs.tsv --json
    """
    if words and (len(words) != 2 or input is not None):
        raise InputError(f"similarity takes two words, or pairs from a file or stdin; got {len(words)} words")
    loaded = pbos.load(model)
    uncovered = Uncovered()
    for batch in batches([list(words_from(words, None))] if words else _pairs(input)):
        first, second = map(list, zip(*batch, strict=True))
        vectors = loaded.embed(first + second)
        uncovered.add(first + second, vectors)
        found = pbos.cosines(vectors[: len(batch)], vectors[len(batch) :])
        for one, other, cosine in zip(first, second, found.tolist(), strict=True):
            write_result(json, {"words": [one, other], "cosine": cosine}, [(one, other, f"{cosine:.3f}")])
    uncovered.warn()


def _pairs(file: str | None) -> Iterator[list[str]]:
    good = bad = first = 0
    for number, line in enumerate(lines_of(file), 1):
        pair = [word.strip() for word in line.split("\t")[:2]]
        if len(pair) == 2 and all(pair):
            good += 1
            yield pair
        else:
            bad, first = bad + 1, first or number
    place = f"{name_of(file)}, line {first}"
    if bad and not good:
        raise InputError(f"{place}: expected two words separated by a tab")
    warn_missing(bad, "skip", place)
