"""Arrow columns to vectors without Python strings: for pyarrow, pandas, Polars, DuckDB and Parquet (extra `arrow`).

An Arrow column of strings is UTF-8 bytes and offsets, which a kernel decodes; only words that Unicode normalisation may
change become Python strings on the way. The result is a column of vectors (a fixed-size list of float32) around the
matrix that was computed, without a copy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError, MissingExtraError
from pbos.files import PARQUET, write_whole
from pbos.kernels import utf8
from pbos.model import Model
from pbos.progress import progress as progress_bar
from pbos.segmenter import CHUNK
from pbos.spelling import Spelling
from pbos.subword_vectors import FloatMatrix
from pbos.text import BOUNDARIES, Codes, CodeTable
from pbos.threads import in_threads, share

try:
    import pyarrow as pa
except ImportError:
    raise MissingExtraError("working with Arrow columns", "arrow") from None

MARKS = tuple(map(ord, BOUNDARIES))
ROWS = 1 << 15  # of a file, embedded at a time: memory stays the same for any number of rows
BoolArray = npt.NDArray[np.bool_]


def embed_arrow(model: Model, words: Any, *, threads: int | None = None, exact: bool = False) -> Any:
    """Return the vectors of an Arrow column of words: a column of fixed-size lists of float32, null where a word is.

    They are the same as those of `model.embed`, to the bit. A word that occurs often is embedded once, as is each entry
    of a dictionary-encoded column.

    Args:
        model: The model.
        words: An Arrow array or chunked array of strings (string, large_string, string_view or a dictionary of them), a
            pandas or Polars series.
        threads: How many threads to use; None for one a core. The result does not depend on it.
        exact: Return a training word's given vector instead of the composed one, as in `model.embed`.

    Returns:
        An Arrow array; of a chunked array a chunked one, with the same chunks.

    >>> import pbos
    >>> vectors = embed_arrow(pbos.load(), pa.array(["unfriendliest", None]))
    >>> vectors.type, vectors.is_null().to_pylist()
    (FixedSizeListType(fixed_size_list<item: float>[160]), [False, True])
    """
    column = as_column(words)
    try:
        vectors, valid = embed_rows(model, column, threads, exact)
    except BadWord as bad:
        raise InputError(f"word {bad.at} {bad.reason}") from None
    result = as_vectors(vectors, valid)
    if not isinstance(column, pa.ChunkedArray):
        return result
    ends = np.cumsum([0, *map(len, column.chunks)]).tolist()
    return pa.chunked_array([result[start:end] for start, end in itertools.pairwise(ends)], result.type)


class BadWord(Exception):
    """A word that cannot be embedded: where it stands, and why."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(at, reason)
        self.at, self.reason = at, reason


def as_column(words: Any) -> Any:
    """Return words as an Arrow array or chunked array of strings, or of a dictionary of strings."""
    if not isinstance(words, (pa.Array, pa.ChunkedArray)):
        if isinstance(words, (str, bytes, pa.Table, pa.RecordBatch)) or hasattr(words, "columns"):
            raise InputError(f'expected one column of words, got {type(words).__name__}; choose one, as table["word"]')
        try:
            words = words.to_arrow() if hasattr(words, "to_arrow") else pa.array(words, from_pandas=True)
        except (pa.ArrowException, TypeError) as error:
            raise InputError(f"expected a column of words, got {type(words).__name__} ({error})") from None
    encoded = pa.types.is_dictionary(words.type)
    kind = words.type.value_type if encoded else words.type
    if not (is_string(kind) or pa.types.is_null(kind)):
        raise InputError(f"expected a column of strings, got {words.type}; cast it to strings first")
    return words


def is_string(kind: Any) -> bool:
    """Tell whether an Arrow type is one of strings."""
    is_view = getattr(pa.types, "is_string_view", lambda kind: False)  # which early versions do not know
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or is_view(kind)


def embed_rows(model: Model, column: Any, threads: int | None, exact: bool) -> tuple[FloatMatrix, BoolArray]:
    """Return the vectors of an array or chunked array, zeros for nulls, and which rows are not null."""
    whole = column if pa.types.is_dictionary(column.type) else column.cast(pa.large_string())
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.combine_chunks()
    vectors = np.empty((len(whole), model.dims), np.float32)
    valid = embed_column(model, whole, vectors, threads)
    if exact:
        vectors[valid] = model.embed(whole.filter(pa.array(valid)), exact=True, threads=threads)
    return vectors, valid


def embed_column(model: Model, column: Any, out: FloatMatrix, threads: int | None) -> BoolArray:
    """Write the vectors of an array, zeros for nulls; return which rows are not null."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if encoded is column or column.null_count or 2 * len(encoded.dictionary) <= len(column):  # as in running text
        return embed_entries(model, encoded, out, threads)
    embed_words(model, column, out, threads)
    return np.ones(len(column), np.bool_)


def embed_entries(model: Model, column: Any, out: FloatMatrix, threads: int | None) -> BoolArray:
    """Do as `embed_column` for a dictionary-encoded array: embed the entries that are used, each once."""
    entries = column.dictionary.cast(pa.large_string())
    rows = column.indices.cast(pa.int64()).fill_null(-1).to_numpy()
    used = np.zeros(len(entries) + 1, np.bool_)  # with a place at the end for null
    used[rows] = True
    used[:-1] &= entries.is_valid().to_numpy(zero_copy_only=False)
    used[-1] = False
    words = entries.filter(pa.array(used[:-1]))
    numbers = np.where(used, np.cumsum(used) - 1, len(words))[rows]
    vectors = np.zeros((len(words) + 1, model.dims), np.float32)
    try:
        embed_words(model, words, vectors[:-1], threads)
    except BadWord as bad:
        raise BadWord(int(np.flatnonzero(numbers == bad.at)[0]), bad.reason) from None
    size = share(len(rows), CHUNK, threads)

    def take_chunk(first: int) -> None:
        part = slice(first, first + size)
        np.take(vectors, numbers[part], axis=0, out=out[part], mode="clip")  # any other mode makes a copy first

    for _ in in_threads(take_chunk, range(0, len(rows), size), threads):
        pass
    valid: BoolArray = used[rows]
    return valid


def embed_words(model: Model, words: Any, out: FloatMatrix, threads: int | None) -> None:
    """Write the vectors of a large_string array without nulls."""
    nodes, numbers = model.nodes, model.spelling.numbers  # before there are threads that would all unpack the index
    size = share(len(words), CHUNK, threads)

    def embed_chunk(first: int) -> None:
        try:
            codes = codes_of(model.spelling, words.slice(first, size))
        except BadWord as bad:
            raise BadWord(first + bad.at, bad.reason) from None
        model.vectors.embed(nodes, numbers, codes, out[first : first + size])

    for _ in in_threads(embed_chunk, range(0, len(words), size), threads):
        pass


def codes_of(spelling: Spelling, words: Any) -> Codes:
    """Lay out a large_string array without nulls, just as `Spelling.codes` does a list of str."""
    _, ends, content = words.buffers()
    offsets = np.frombuffer(ends, np.int64)[words.offset : words.offset + len(words) + 1] if ends else np.zeros(1, int)
    data = np.frombuffer(content or b"", np.uint8)
    lengths = np.diff(offsets)
    if offsets[0] < 0 or offsets[-1] > data.size or (lengths < 0).any():
        raise InputError("the Arrow array is damaged: its offsets lie outside of its data")
    if not lengths.all():
        raise BadWord(int(np.flatnonzero(lengths == 0)[0]), "is empty; an empty string has no spelling to work with")
    codes = np.empty(offsets[-1] - offsets[0], np.uint32)
    ends = np.empty(offsets.size, np.int64)
    for array in (data, offsets):  # one kernel signature for whatever memory they lie in
        array.flags.writeable = False
    bad = utf8.decode(data, offsets, codes, ends)
    if bad >= 0:
        raw = data[offsets[bad] : offsets[bad + 1]].tobytes()
        raise BadWord(bad, f"is not UTF-8: {raw!r}; decode the text with its right encoding or drop the word")
    entries = CodeTable.of(spelling.normalization).entries(codes[: ends[-1]])
    odd = np.unique(np.searchsorted(ends, np.flatnonzero(entries & utf8.CHANGES), side="right") - 1)
    changed = spelling.codes(words.take(pa.array(odd)).to_pylist())
    return Codes(*utf8.lay_out(entries, ends, odd, *changed, spelling.boundaries, spelling.inner_boundaries, MARKS))


def as_vectors(vectors: FloatMatrix, valid: BoolArray | None = None) -> Any:
    """Return a matrix as an Arrow array of fixed-size lists, without copying it; null where `valid` is False."""
    validity = None if valid is None or valid.all() else pa.array(valid).buffers()[1]
    kind = pa.list_(pa.float32(), vectors.shape[1])
    return pa.Array.from_buffers(kind, len(vectors), [validity], children=[pa.array(vectors.reshape(-1))])


# -- files -------------------------------------------------------------------------------------------------------------

Rows = Iterator[Any]
"""Record batches, of ROWS rows at most."""


@contextmanager
def open_table(path: str | PathLike[str]) -> Iterator[tuple[Any, int | None, Rows]]:
    """Open a Parquet or Arrow file: its schema, how many rows it has (None where not known), and the rows."""
    with Path(path).open("rb") as stream, damage_named(path):
        if Path(path).suffix in PARQUET:
            from pyarrow import parquet

            file = parquet.ParquetFile(stream)
            yield file.schema_arrow, file.metadata.num_rows, file.iter_batches(batch_size=ROWS)
        else:
            reader = pa.ipc.open_file(stream)
            batches = map(reader.get_batch, range(reader.num_record_batches))
            parts = (batch.slice(first, ROWS) for batch in batches for first in range(0, batch.num_rows, ROWS))
            yield reader.schema, None, parts


@contextmanager
def damage_named(path: str | PathLike[str]) -> Iterator[None]:
    """Turn what pyarrow raises on bad data into one FormatError that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk
            raise
        reason = str(error).splitlines()[0].rstrip(".")
        raise FormatError(f"{path}: not a sound {kind_of(path)} file ({reason})") from None


def kind_of(path: str | PathLike[str]) -> str:
    """Name the kind of a table."""
    return "Parquet" if Path(path).suffix in PARQUET else "Arrow"


@contextmanager
def write_table(path: str | PathLike[str], schema: Any, vector_column: str) -> Iterator[Callable[[Any], None]]:
    """Write a Parquet or Arrow file that appears only when whole: yields what to call with each record batch."""
    with write_whole(path) as stream:
        if Path(path).suffix in PARQUET:
            from pyarrow import parquet

            others = [name for name in schema.names if name != vector_column]  # a dictionary of floats is no use
            with parquet.ParquetWriter(stream, schema, use_dictionary=others) as writer:
                yield writer.write_batch
        else:
            plain = pa.schema([field.with_type(plain_type(field.type)) for field in schema], schema.metadata)
            with pa.ipc.new_file(stream, plain) as writer:
                yield lambda batch: writer.write_batch(cast_batch(batch, plain))


def cast_batch(batch: Any, schema: Any) -> Any:
    """Return a record batch with the types of a schema."""
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_type(kind: Any) -> Any:
    """Return a type without a dictionary: each batch may have another one, an Arrow file only one for all."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@contextmanager
def new_table(
    path: str | PathLike[str], column: str, vector_column: str, dims: int
) -> Iterator[Callable[[list[str], FloatMatrix], None]]:
    """Write a table of words and vectors, whole or not at all: yields what to call with some of them at a time."""
    if column == vector_column:
        raise InputError(f'the words and the vectors cannot both be in the column "{column}"')
    schema = with_vectors(pa.schema([pa.field(column, pa.string())]), vector_column, dims)
    with write_table(path, schema, vector_column) as write:
        yield lambda words, vectors: write(
            pa.RecordBatch.from_arrays([pa.array(words, pa.string()), as_vectors(vectors)], schema=schema)
        )


def with_vectors(schema: Any, vector_column: str, dims: int) -> Any:
    """Return a schema with a column of vectors at its end."""
    return schema.append(pa.field(vector_column, pa.list_(pa.float32(), dims)))


def word_column(path: str | PathLike[str], schema: Any, column: str | None) -> str:
    """Return which column of a file holds the words: the one asked for, or the only one with strings."""
    if column is None:
        found = [field.name for field in schema if is_string(plain_type(field.type))]
        if len(found) != 1:
            has = f"{len(found)} columns of strings ({', '.join(found)})" if found else "no column of strings"
            raise InputError(f"{path} has {has}; name the one with the words by --column")
        return str(found[0])
    places = schema.get_all_field_indices(column)
    if len(places) != 1:
        has = f"{len(places)} columns" if places else "no column"
        raise InputError(f'{path} has {has} "{column}"; its columns are: {", ".join(schema.names)}')
    kind = schema.field(places[0]).type
    if not is_string(plain_type(kind)):
        raise InputError(f'column "{column}" of {path} holds {kind}, not strings; choose another by --column')
    return column


def words_of_table(path: str | PathLike[str], column: str | None) -> Iterator[str]:
    """Yield the words of a file, where vectors go to a file that has no place for a null."""
    with open_table(path) as (schema, _, batches):
        column = word_column(path, schema, column)
        row = 0
        for batch in batches:
            for word in batch.column(column).to_pylist():
                if not word:
                    what = "an empty word has no spelling" if word == "" else "null can be kept in a table only"
                    raise InputError(f'{path}, row {row} of column "{column}": {what}')
                yield word
                row += 1


def embed_table(
    model: Model,
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    column: str | None = None,
    vector_column: str = "vector",
    threads: int | None = None,
    exact: bool = False,
    progress: bool | None = None,
    on_batch: Callable[[Any, FloatMatrix, BoolArray], None] = lambda *_: None,
) -> None:
    """Copy a Parquet or Arrow file, with a column of vectors added; in constant memory, whole or not at all.

    Args:
        model: The model.
        source: The file, .parquet, .pq, .arrow, .feather or .ipc.
        target: The new one, of any of these kinds.
        column: The column with the words; None for the only one with strings.
        vector_column: The name of the new column.
        threads: How many threads to use; None for one a core.
        exact: Give training words the vectors they came with.
        progress: Show a bar; None for "if stderr is a terminal".
        on_batch: Called after each batch with its words, their vectors, and which of them are not null.
    """
    with open_table(source) as (schema, n_rows, batches):
        column = word_column(source, schema, column)
        if vector_column in schema.names:
            raise InputError(f'{source} already has a column "{vector_column}"; name another one by --vector-column')
        new_schema = with_vectors(schema, vector_column, model.dims)
        row = 0
        with write_table(target, new_schema, vector_column) as write, progress_bar("embedding", n_rows, progress) as go:
            for batch in batches:
                words = as_column(batch.column(column))
                try:
                    vectors, valid = embed_rows(model, words, threads, exact)
                except BadWord as bad:
                    place = f'{source}, row {row + bad.at} of column "{column}"'
                    raise InputError(f"{place}: the word {bad.reason}") from None
                arrays = [*batch.columns, as_vectors(vectors, valid)]
                write(pa.RecordBatch.from_arrays(arrays, schema=new_schema))
                row += len(words)
                on_batch(words, vectors, valid)
                go(len(words), note=f"{row:,} words")
