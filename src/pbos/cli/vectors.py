"""Commands that give vectors and what follows from them: embed, neighbors, similarity."""

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
    Uncovered,
    WordsArgument,
    batches,
    lines_of,
    load_model,
    words_from,
    write,
    write_json,
)

Writer = Callable[[list[str], Any], None]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="How many threads; by default one a core.")]


def embed(
    words: WordsArgument = None,
    model: ModelOption = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "-i", "--input", metavar="FILE", help="Read words from a file, one a line (- for stdin), or from a table."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to a file: .npy for a matrix, .parquet or .arrow for a table, else text (also .gz ...).",
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="In tables: the column of words; by default the only strings.")
    ] = None,
    vector_column: Annotated[
        str, typer.Option(metavar="NAME", help="In tables: what to call the column of vectors.")
    ] = "vector",
    exact: Annotated[bool, typer.Option(help="Give training words the vectors they came with.")] = False,
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Write the vector of every word: a line with the word and its numbers.

    Words are streamed: any number goes through in constant memory. Tables (Parquet, Arrow, Feather; extra arrow) keep
    their other columns, and null stays null.

    \b
    Examples:
      pbos embed unfriendliest --json
      cat words.txt | pbos embed > vectors.txt
      pbos embed -i words.txt -o vectors.npy
      pbos embed -i words.parquet --column word -o vectors.parquet
    """
    from pbos.errors import InputError
    from pbos.progress import progress

    from_table, to_table = _is_table(input), _is_table(output)
    if column is not None and not (from_table or to_table):
        raise InputError("--column is for tables; give it with an input or output file .parquet, .arrow or .feather")
    if json and (to_table or (output is not None and output.suffix == ".npy")):
        raise InputError(f"--json writes text; choose an output file that does not end in {output and output.suffix}")
    loaded = load_model(model)
    if from_table and to_table and not words:
        _embed_table(loaded, input, output, column, vector_column, exact, threads)
        return
    uncovered = Uncovered()
    show = None if output else False  # where the output goes to the terminal too, a bar would be in its way
    columns = (column if to_table and not from_table and column else "word", vector_column)
    with _writer(output, json, loaded.dims, columns) as write_batch, progress("embedding", None, show) as advance:
        done = 0
        if from_table and not words:
            from pbos.adapters.arrow import words_of_table

            source: Iterator[str] = words_of_table(str(input), column)
        else:
            source = words_from(words, input)
        for batch in batches(source, 4 * BATCH if to_table else BATCH):  # a batch is a row group of the table
            vectors = loaded.embed(batch, exact=exact, threads=threads)
            uncovered.look_at(batch, vectors)
            write_batch(batch, vectors)
            done += len(batch)
            advance(len(batch), note=f"{done:,} words")
    uncovered.warn()


def _is_table(file: Path | None) -> bool:
    from pbos.files import is_table

    return file is not None and is_table(file)


def _embed_table(
    model: Any, source: Any, target: Any, column: str | None, vector_column: str, exact: bool, threads: int | None
) -> None:
    """Copy a table with the vectors added."""
    from pbos.adapters.arrow import embed_table

    uncovered = Uncovered()

    def on_batch(words: Any, vectors: Any, valid: Any) -> None:
        zeros = (valid & ~vectors.any(axis=1)).nonzero()[0]
        uncovered.look_at(words.take(zeros).to_pylist(), vectors[zeros])

    embed_table(
        model,
        source,
        target,
        column=column,
        vector_column=vector_column,
        exact=exact,
        threads=threads,
        on_batch=on_batch,
    )
    uncovered.warn()


@contextmanager
def _writer(output: Path | None, json: bool, dims: int, columns: tuple[str, str]) -> Iterator[Writer]:
    """Choose how batches of words and vectors are written; a file appears only when whole."""
    from pbos.files import write_whole

    if output is None:
        yield lambda words, vectors: _write_text(sys.stdout.buffer, words, vectors, json)
        sys.stdout.flush()
        return
    if _is_table(output):
        from pbos.adapters.arrow import new_table

        with new_table(output, *columns, dims) as write_batch:
            yield write_batch
        return
    with write_whole(output) as stream:
        if output.suffix != ".npy":
            yield lambda words, vectors: _write_text(stream, words, vectors, json)
            return
        rows = 0

        def write_rows(words: list[str], vectors: Any) -> None:
            nonlocal rows
            rows += len(words)
            stream.write(vectors.tobytes())

        stream.write(_npy_header(0, dims))
        yield write_rows
        stream.seek(0)
        stream.write(_npy_header(rows, dims))


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
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="How many neighbors.")] = 10,
    json: JsonOption = False,
) -> None:
    """List the training words nearest to a word, by cosine.

    \b
    Examples:
      pbos neighbors unfriendliest
      pbos neighbors -n 3 --json covfefe
    """
    loaded = load_model(model)
    uncovered = Uncovered()
    for word in words_from(words, input):
        uncovered.look_at([word], loaded[word][None])
        near = loaded.neighbors(word, number) if loaded[word].any() else []
        if json:
            write_json({"word": word, "neighbors": [{"word": other, "cosine": cosine} for other, cosine in near]})
        else:
            for other, cosine in near:
                write(f"{word}\t{other}\t{cosine:.3f}")
    uncovered.warn()


def similarity(
    words: WordsArgument = None,
    model: ModelOption = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "-i", "--input", metavar="FILE", help="Read pairs from a file: two words a line, separated by a tab."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Give the cosine of two words, or of many pairs.

    \b
    Examples:
      pbos similarity king queen
      pbos similarity -i pairs.tsv --json
    """
    from pbos.errors import InputError

    if words and (len(words) != 2 or input is not None):
        raise InputError(f"similarity takes two words, or pairs from a file or stdin; got {len(words)} words")
    loaded = load_model(model)
    from pbos.model import cosines

    uncovered = Uncovered()
    for batch in batches(["\t".join(words)] if words else lines_of(input), BATCH):
        pairs = [line.split("\t") for line in batch]
        for pair in pairs:
            if len(pair) < 2 or not all(pair[:2]):
                raise InputError(f"expected two words separated by a tab, got: {pair[0]!r}")
        first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        vectors = loaded.embed(first + second)
        uncovered.look_at(first + second, vectors)
        for one, other, cosine in zip(
            first, second, cosines(vectors[: len(pairs)], vectors[len(pairs) :]), strict=True
        ):
            if json:
                write_json({"words": [one, other], "cosine": float(cosine)})
            else:
                write(f"{one}\t{other}\t{cosine:.3f}")
    uncovered.warn()
