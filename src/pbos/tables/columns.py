"""Files with a column of words: Parquet, Arrow, CSV and TSV (extra `arrow`)."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from typing import Any, BinaryIO, NamedTuple

from pbos.errors import FormatError, InputError, MissingExtraError
from pbos.files import paths
from pbos.files.atomic import write_whole

try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError:
    raise MissingExtraError("reading or writing Parquet, Arrow or CSV", "arrow") from None

ROWS = 1 << 15  # rows of a file to read at a time, so that memory does not depend on the number of rows
MAX_SHOWN = 8  # columns in a message


class Table(NamedTuple):
    """An open file of words, or a part of it."""

    schema: Any
    batches: Iterator[Any]  # up to `ROWS` rows each
    column: str  # the column of words
    place: str  # comes before the number of a row in errors
    groups: list[int] | None = None  # the rows of each row group of a whole Parquet file
    first: int = 1  # the number of the first row


def words_of_table(path: str | PathLike[str], column: str | None) -> Iterator[str]:
    """Yield the words of a file; an empty string for each missing word."""
    with open_table(path, column) as table:
        for batch in table.batches:
            yield from (word or "" for word in batch.column(table.column).to_pylist())


def word_column(place: str | PathLike[str], schema: Any, column: str | None, hint: str = "") -> str:
    """Return the name of the column of words: the given one, or the only one with strings."""
    found = [field.name for field in schema if is_string(field.type) and column in (None, field.name)]
    if column is not None:  # it may have no word at all
        found += [field.name for field in schema if str(field.type) == "null" and field.name == column]
    if len(found) != 1 or schema.names.count(found[0]) != 1:
        named = "" if column is None else f' named "{column}"'
        columns = [f"{field.name} ({field.type})" for field in schema]
        some = ", ".join(columns[:MAX_SHOWN] + ["..."] * (len(columns) > MAX_SHOWN)) + hint
        raise InputError(f"{place} has {len(found)} columns of strings{named}; choose one of its columns: {some}")
    return str(found[0])


@contextmanager
def open_table(path: str | PathLike[str], column: str | None = None, groups: range | None = None) -> Iterator[Table]:
    """Open a Parquet, Arrow, CSV or TSV file, or some row groups of a Parquet file."""
    separator = paths.separator_of(path)
    try:
        with paths.open_file(path) if separator is None else paths.open_bytes(path) as stream:
            hint, sizes, first = "", None, 1
            if separator is not None:
                rows = read_csv(path, stream, separator)
                if not (names := next(rows, None)):
                    raise FormatError(f"{path} is empty; expected a header line with the names of the columns")
                schema = pa.schema([(name, pa.string()) for name in names])
                batches = batches_of(rows, schema)
                if column is None:  # the first line may not be the names of columns
                    column, hint = "word", ', name it "word", or name a plain list of words .txt'
            elif paths.suffix_of(path) in paths.PARQUET:
                file = parquet.ParquetFile(stream)
                sizes = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
                groups = range(len(sizes)) if groups is None else groups
                first += sum(sizes[: groups.start])
                batches = map(validated, file.iter_batches(batch_size=ROWS, row_groups=groups))
                schema = file.schema_arrow
            else:
                reader = pa.ipc.open_file(stream)
                whole = map(validated, map(reader.get_batch, range(reader.num_record_batches)))
                batches = (batch.slice(at, ROWS) for batch in whole for at in range(0, batch.num_rows, ROWS))
                schema = reader.schema
            column = word_column(path, schema, column, hint)
            yield Table(schema, batches, column, f'{path}, column "{column}", row', sizes, first)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # also names of columns can be damaged
        if isinstance(error, OSError) and error.errno is not None:  # the disk, not the content
            raise
        reason = str(error).splitlines()[0].rstrip(".")
        raise FormatError(f"{path} is damaged, or not the kind of table its name says ({reason})") from None


def read_csv(path: str | PathLike[str], stream: BinaryIO, separator: str) -> Iterator[list[str]]:
    """Yield the rows of CSV or TSV that are not blank; each has as many columns as the first.

    As in files of counts, quotes have no special meaning in TSV, and words such as null and NaN are words. Python's
    reader is used because a thread of pyarrow's one ends the process if an error is raised before the end of the file.
    """
    csv.field_size_limit(paths.MAX_LINE)  # by default 128 KiB
    lines = paths.decoded_lines(paths.lines_between(stream), f"{path}, line")
    quoting: Any = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    reader = csv.reader(lines, delimiter=separator, quoting=quoting, strict=True)
    line, width = 1, 0
    try:
        for row in reader:
            width = width or len(row)
            if len(row) not in (0, width):
                raise FormatError(f"{path}, line {line}: expected {width} columns, found {len(row)}; fix this row")
            if row:
                yield row
            line = reader.line_num + 1
    except csv.Error as error:
        raise FormatError(f"{path}, line {line}: {error}; close quotes, and double the ones inside") from None


def batches_of(rows: Iterable[Sequence[str]], schema: Any) -> Iterator[Any]:
    """Yield rows of words in batches."""
    rows = iter(rows)
    while part := list(itertools.islice(rows, ROWS)):
        yield pa.record_batch(list(zip(*part, strict=True)), schema=schema)


def validated(batch: Any) -> Any:
    """Return a batch of a file; raise ArrowInvalid if it is damaged, or pyarrow could read outside of its data."""
    batch.validate(full=True)
    for one, column in zip(batch.schema, batch.columns, strict=True):
        if column.null_count and not one.nullable:
            raise pa.ArrowInvalid(f"the column {one.name} has missing values, which its type forbids")
    return batch


def table_of_words(words: Iterable[str], column: str, place: str = "word") -> Table:
    """Return words as a table of one column; errors name the place, and count the words from 1."""
    schema = pa.schema({column: pa.string()})
    return Table(schema, batches_of(zip(words), schema), column, place)


@contextmanager
def write_table(path: str | PathLike[str], schema: Any, repeating: list[str]) -> Iterator[Callable[[list[Any]], None]]:
    """Write a Parquet or Arrow file completely or not at all; yields a function that writes the columns of some rows.

    Parquet may encode the columns `repeating`, in which values may repeat, with a dictionary.
    """
    if paths.suffix_of(path) not in paths.PARQUET + paths.ARROW:
        raise InputError(f"{path} is not a name for a table; use .parquet, .arrow or .feather")
    is_parquet, written = paths.suffix_of(path) in paths.PARQUET, schema
    if not is_parquet:  # each batch may have another dictionary, but an Arrow file has only one
        written = pa.schema([field.with_type(plain_type(field.type)) for field in schema], schema.metadata)
    with write_whole(path) as stream:
        make = partial(parquet.ParquetWriter, use_dictionary=repeating) if is_parquet else pa.ipc.new_file
        with make(stream, written) as writer:
            yield lambda columns: writer.write_table(pa.table(columns, schema).cast(written))


def is_string(kind: Any) -> bool:
    """Return whether an Arrow type is one of strings, or of a dictionary of strings."""
    return str(plain_type(kind)) in ("string", "large_string", "string_view")


def plain_type(kind: Any) -> Any:
    """Return the type of the values of a dictionary, or any other type as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
