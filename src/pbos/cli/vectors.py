"""Commands about vectors: embed, neighbors, similarity."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from pbos.cli.common import (
    BATCH,
    InputOption,
    JsonOption,
    ModelOption,
    ThreadsOption,
    Uncovered,
    WordsArgument,
    batches,
    lines_of,
    load_model,
    name_of,
    one_of,
    words_from,
    write,
    write_json,
)
from pbos.errors import InputError
from pbos.files import is_table
from pbos.settings import MISSING

Writer = Callable[[list[str], Any], None]
ExactOption = Annotated[
    bool, typer.Option("--exact", help="Use the given vectors of training words (see pbos train --keep-targets).")
]


def embed(
    words: WordsArgument = None,
    model: ModelOption = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "-i", "--input", metavar="FILE", help="Read words from a file, one per line (- for stdin), or from a table."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to a file: .npy for a matrix, .parquet or .arrow for a table, else text (maybe .gz).",
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Tables: the column of words; by default the only column of strings."),
    ] = None,
    vector_column: Annotated[
        str, typer.Option(metavar="NAME", help="Tables: the name of the column of vectors.")
    ] = "vector",
    exact: ExactOption = False,
    missing: Annotated[
        str, one_of((*MISSING, "null"), "Empty lines, and nulls in tables: stop, write zeros, or keep null (tables).")
    ] = "error",
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Write the vector of every word: a line with the word and its numbers.

    Words are streamed, so memory does not grow with their number. Tables (Parquet, Arrow, Feather; extra arrow) keep
    their other columns.

    \b
    Examples:
      pbos embed unfriendliest --json
      cat words.txt | pbos embed > vectors.txt
      pbos embed -i words.txt -o vectors.npy --missing zeros
      pbos embed -i words.parquet --column word -o vectors.parquet
    """
    from pbos.progress import progress

    from_table, to_table = input is not None and is_table(input), output is not None and is_table(output)
    if column is not None and not (from_table or to_table):
        raise InputError("--column is for tables; give it with an input or output file .parquet, .arrow or .feather")
    if missing == "null" and not (from_table and to_table):
        raise InputError("--missing null is for tables; give an input and an output file .parquet, .arrow or .feather")
    if json and output is not None and (to_table or output.suffix == ".npy"):
        raise InputError(f"--json writes text; choose an output file that does not end in {output.suffix}")
    loaded = load_model(model)
    uncovered = Uncovered()
    if from_table and to_table and not words:
        from pbos.adapters.arrow import embed_table

        def on_batch(words: Any, vectors: Any, *_: Any) -> None:
            zeros = (~vectors.any(axis=1)).nonzero()[0]
            uncovered.add(words.take(zeros).to_pylist(), vectors[zeros])

        names = {"column": column, "vector_column": vector_column}
        options = {"exact": exact, "missing": missing, "threads": threads, "on_batch": on_batch}
        embed_table(loaded, input, output, **names, **options)  # type: ignore[arg-type]
        uncovered.warn()
        return
    if from_table and not words:
        from pbos.adapters.arrow import words_of_table

        source: Iterator[str] = words_of_table(input, column, missing=missing)  # type: ignore[arg-type, call-arg]
    else:
        source = words_from(words, input, missing)
    columns = "word" if from_table or column is None else column, vector_column
    show = None if output else False  # no bar in the middle of vectors on the terminal
    with _writer(output, json, loaded.dims, columns) as write_batch, progress("embedding", None, show) as advance:
        done = 0
        for batch in batches(source, 4 * BATCH if to_table else BATCH):  # a batch is a row group of the table
            vectors = loaded.embed(batch, exact=exact, missing=missing, threads=threads)  # type: ignore[arg-type]
            uncovered.add(batch, vectors)
            write_batch(batch, vectors)
            done += len(batch)
            advance(len(batch), note=f"{done:,} words")
    uncovered.warn()


@contextmanager
def _writer(output: Path | None, json: bool, dims: int, columns: tuple[str, str]) -> Iterator[Writer]:
    """Yield a function that writes a batch of words and vectors; a file appears only when it is complete."""
    from pbos.files import write_whole

    if output is None:
        yield lambda words, vectors: _write_text(sys.stdout.buffer, words, vectors, json)
        sys.stdout.flush()
    elif is_table(output):
        from pbos.adapters.arrow import new_table

        with new_table(output, *columns, dims) as write_batch:
            yield write_batch
    elif output.suffix == ".npy":
        with write_whole(output) as stream:
            stream.write(_npy_header(0, dims))
            yield lambda words, vectors: stream.write(vectors.tobytes()) and None
            size = stream.tell() - len(_npy_header(0, dims))
            stream.seek(0)
            stream.write(_npy_header(size // (4 * dims), dims))
    else:
        with write_whole(output) as stream:
            yield lambda words, vectors: _write_text(stream, words, vectors, json)


def _npy_header(rows: int, dims: int) -> bytes:
    """Return the header of a .npy file with a float32 matrix, of the same length for any number of rows."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dims}), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


def _write_text(stream: Any, words: list[str], vectors: Any, json: bool) -> None:
    from json import dumps

    numbers = " ".join(["%.6g"] * vectors.shape[1])
    for word, row in zip(words, vectors.tolist(), strict=True):
        if json:
            line = dumps({"word": word, "vector": [float(f"{x:.6g}") for x in row]}, ensure_ascii=False)
        else:
            line = f"{word} {numbers % tuple(row)}"
        stream.write(line.encode() + b"\n")


def neighbors(
    words: WordsArgument = None,
    model: ModelOption = None,
    input: InputOption = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="The number of neighbors.")] = 10,
    positive: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Instead of words: one to add; repeat the option for more."),
    ] = None,
    negative: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word to subtract; repeat the option for more.")
    ] = None,
    among: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Search the words of a file, one per line, not the training words."),
    ] = None,
    exact: ExactOption = False,
    json: JsonOption = False,
) -> None:
    """List the words nearest to each word by cosine, or nearest to a sum and difference of words.

    A word without any known subword has no neighbors.

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
    loaded = load_model(model)
    options: dict[str, Any] = {"among": among and list(words_from(None, among)), "exact": exact}
    uncovered = Uncovered()

    def show(asked: dict[str, Any], label: str, near: list[tuple[str, float]]) -> None:
        if json:
            write_json({**asked, "neighbors": [{"word": word, "cosine": cosine} for word, cosine in near]})
            return
        for word, cosine in near:
            write(f"{label}\t{word}\t{cosine:.3f}")

    if combined:
        plus, minus = positive or [], negative or []
        uncovered.add(plus + minus, loaded.embed(plus + minus))
        label = " + ".join(plus) + "".join(f" - {word}" for word in minus)
        near = loaded.neighbors(n=number, positive=plus, negative=minus, **options)
        show({"positive": plus, "negative": minus}, label.strip(), near)
    else:
        for batch in batches(words_from(words, input)):
            uncovered.add(batch, loaded.embed(batch))
            for word, near in zip(batch, loaded.neighbors(batch, number, **options), strict=True):
                show({"word": word}, word, near)
    uncovered.warn()


def similarity(
    words: WordsArgument = None,
    model: ModelOption = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "-i", "--input", metavar="FILE", help="Read pairs from a file: two words per line, separated by a tab."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the cosine of two words, or of many pairs; it is 0 for a word without any known subword.

    \b
    Examples:
      pbos similarity king queen
      pbos similarity -i pairs.tsv --json
    """
    if words and (len(words) != 2 or input is not None):
        raise InputError(f"similarity takes two words, or pairs from a file or stdin; got {len(words)} words")
    loaded = load_model(model)
    from pbos.arrays import cosines

    uncovered = Uncovered()
    done = 0
    for batch in batches(["\t".join(words)] if words else lines_of(input)):
        pairs = [line.split("\t")[:2] for line in batch]
        for number, pair in enumerate(pairs, done + 1):
            if len(pair) < 2 or not all(pair):
                raise InputError(f"{name_of(input)}, line {number}: expected two words separated by a tab")
        done += len(pairs)
        first, second = map(list, zip(*pairs, strict=True))
        vectors = loaded.embed(first + second)
        uncovered.add(first + second, vectors)
        near = cosines(vectors[: len(pairs)], vectors[len(pairs) :]).tolist()
        for one, other, cosine in zip(first, second, near, strict=True):
            if json:
                write_json({"words": [one, other], "cosine": cosine})
            else:
                write(f"{one}\t{other}\t{cosine:.3f}")
    uncovered.warn()
