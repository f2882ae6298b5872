"""Vectors for columns and tables of words: pyarrow, pandas, Polars, DuckDB, Parquet files (extra `arrow`)."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, MissingExtraError
from pbos.files.paths import everywhere
from pbos.jobs.progress import progress as progress_bar
from pbos.model import Model, load
from pbos.settings import MISSING, check_choice
from pbos.words.arrays import FloatMatrix

try:
    import pyarrow as pa

    from pbos.tables.columns import Table, is_string, open_table, word_column, write_table
except ImportError:
    raise MissingExtraError("working with Arrow columns", "arrow") from None

EXAMPLES = 5  # words without a known subword that are named
BoolArray = npt.NDArray[np.bool_]
MissingInColumn = Literal["error", "zeros", "null"]


def embed_arrow(
    model: Model, words: Any, *, missing: MissingInColumn = "error", threads: int | None = None, exact: bool = False
) -> Any:
    """Return the vectors of a column of words as an Arrow column of fixed-size lists of float32.

    Each distinct word is embedded once. A chunked array keeps its chunks.

    Args:
        model: The model.
        words: An Arrow array or chunked array of strings or of a dictionary of strings, a pandas or Polars series.
        missing: What to do with missing words (null or empty): "error", "zeros" for zero vectors, or "null".
        threads: The number of threads; None for one per core. The result does not depend on it.
        exact: Return a training word's given vector instead of the composed one, as in `model.embed`.

    >>> import pbos
    >>> vectors = embed_arrow(pbos.load(), pa.array(["unfriendliest", None]), missing="null")
    >>> vectors.type, vectors.is_null().to_pylist()
    (FixedSizeListType(fixed_size_list<item: float>[160]), [False, True])
    """
    distinct = Distinct(words, missing)
    return distinct.to_arrow(model.embed(distinct.words, missing="zeros", threads=threads, exact=exact))


def confidence_arrow(
    model: Model, words: Any, *, missing: MissingInColumn = "error", threads: int | None = None
) -> Any:
    """Return the confidence of a column of words as an Arrow column of float32; see `Model.confidence`.

    The arguments are those of `embed_arrow`. With `missing="zeros"`, the confidence of a missing word is 0.
    """
    distinct = Distinct(words, missing)
    return distinct.to_arrow(model.confidence(distinct.words, missing="zeros", threads=threads))


class Distinct:
    """The distinct words of a column, or all if few repeat, and which of its rows have one.

    Errors name a place and the number of a row there, counted from `first`.
    """

    def __init__(self, words: Any, missing: str, place: str = "word", first: int = 0) -> None:
        check_choice("missing", missing, (*MISSING, "null"))
        self._column = column = as_column(words)
        try:
            column.validate(full=True)  # a damaged one could make pyarrow read outside of the data
        except pa.ArrowInvalid as error:
            raise InputError(f"the column of words is damaged ({error})") from None
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.large_string())  # pyarrow cannot encode or join all other kinds of strings
        encoded = column.dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        used = encoded.indices.dictionary_encode("encode")  # a column may use only a few entries of a large dictionary
        repeated = 2 * len(used.dictionary) <= len(column)  # otherwise copying rows costs more than it saves
        distinct = encoded.dictionary.cast(pa.large_string()).take(used.dictionary) if repeated else column
        self.words: list[Any] = distinct.to_pylist()  # with None or "" for a missing one
        self._missing = missing
        self._rows = used.indices.to_numpy() if repeated else None
        self.present: BoolArray = self.spread(np.fromiter(map(bool, self.words), np.bool_, len(self.words)))
        if missing == "error" and not self.present.all():
            row = int(self.present.argmin())
            what = "is missing (null)" if column[row].as_py() is None else "is an empty string"
            use = 'drop such words, or use missing="zeros" or missing="null"'
            raise InputError(f"{place} {first + row} {what}; {use}")

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the value of each row of the column, from the value of each word."""
        return values if self._rows is None else values.take(self._rows, axis=0)

    def to_arrow(self, values: npt.NDArray[np.float32]) -> Any:
        """Return what each row gets, from the number or the vector of each word, in chunks like the column's."""
        rows = self.spread(values)
        null = ~self.present & (self._missing == "null")
        if rows.ndim == 1:
            array = pa.array(rows, mask=null)
        else:
            array = pa.FixedSizeListArray.from_arrays(rows.reshape(-1), rows.shape[1], mask=pa.array(null))
        if not isinstance(self._column, pa.ChunkedArray):
            return array
        ends = np.cumsum([0, *map(len, self._column.chunks)]).tolist()
        return pa.chunked_array([array[start:end] for start, end in itertools.pairwise(ends)], array.type)


def as_column(words: Any) -> Any:
    """Return words as an Arrow array or chunked array of strings, or of a dictionary of strings."""
    kind = type(words).__name__
    if isinstance(words, (str, bytes)) or hasattr(words, "columns"):
        raise InputError(f'expected a column of words, got {kind}; choose one, as in table["word"]')
    if not isinstance(words, (pa.Array, pa.ChunkedArray)):
        try:
            words = words.to_arrow() if hasattr(words, "to_arrow") else pa.array(words, from_pandas=True)
        except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:  # the last one for lone surrogates
            raise InputError(f"expected a column of words, got {kind} ({error})") from None
    if not is_string(words.type) and not pa.types.is_null(words.type):
        raise InputError(f"expected a column of strings, got {words.type}; cast it to strings first")
    return words


class Embedded(NamedTuple):
    """What was embedded."""

    parts: int  # files written now
    kept: int  # files that were there already
    words: int  # words embedded now
    uncovered: int  # words without any known subword, whose vectors are zero
    examples: list[str]  # some of these
    missing: int = 0  # null or empty words


@dataclass(frozen=True)
class Embedder:
    """Adds the vectors of the words to tables of Arrow, here or in another process.

    Only the path of the model is sent to other processes; each of them loads the model once. Called with a table or a
    record batch, as by Ray's `map_batches`, it returns one with a column more, or two. Called with many record batches,
    as by Spark's `mapInArrow`, it yields such batches; their vectors are lists without a fixed size, as Spark wants
    them.

    Args:
        model: The folder of the model; None for the English model of pbos; or a model, which is sent as a whole.
        column: The column of words; None for the only column of strings.
        vector_column: The name of the new column.
        confidence_column: The name of another new column, of the confidence of each word; None for no such column.
        missing: What to do with missing words (null or empty): "error", "zeros" for zero vectors, or "null".
        exact: Return the given vectors of training words, as in `model.embed`.
        threads: The number of threads; None for one per core.

    >>> embedder = Embedder(column="word")
    >>> embedder(pa.table({"word": ["higher", "lower"]})).column_names
    ['word', 'vector']
    """

    model: Model | str | PathLike[str] | None = None
    column: str | None = None
    vector_column: str = "vector"
    confidence_column: str | None = None
    missing: MissingInColumn = "error"
    exact: bool = False
    threads: int | None = 1
    _job: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model) and self.model is not None:
            object.__setattr__(self, "model", everywhere(self.model))  # other processes work in other folders

    def loaded(self) -> Model:
        """Return the model, loaded once in each process."""
        return self.model if isinstance(self.model, Model) else load_once(cast(str | None, self.model), self._job)

    def __call__(self, data: Any) -> Any:
        """Return a table or a record batch with the new columns, or yield many."""
        if not isinstance(data, (pa.Table, pa.RecordBatch)):
            return self._batches(data)
        columns, *_ = self.embed(data.column(word_column("the table", data.schema, self.column)))
        return type(data).from_arrays([*data.columns, *columns], schema=self.schema(data.schema))

    def _batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in map(self, batches):
            at = batch.schema.get_field_index(self.vector_column)
            yield batch.set_column(at, self.vector_column, batch.column(at).cast(pa.list_(pa.float32())))

    def schema(self, schema: Any) -> Any:
        """Return the schema of a table with the new columns."""
        vectors = pa.list_(pa.float32(), self.loaded().dims)
        for name, kind in ((self.vector_column, vectors), (self.confidence_column, pa.float32())):
            if name in schema.names:
                raise InputError(f'the table already has a column "{name}"; choose another name for the new one')
            schema = schema if name is None else schema.append(pa.field(name, kind))
        return schema

    def embed(self, words: Any, place: str = "word", first: int = 0) -> tuple[list[Any], Distinct, FloatMatrix]:
        """Return the new columns for a column of words, its distinct words, and the vectors of these."""
        model, distinct = self.loaded(), Distinct(words, self.missing, place, first)
        vectors = model.embed(distinct.words, missing="zeros", threads=self.threads, exact=self.exact)
        columns = [distinct.to_arrow(vectors)]
        if self.confidence_column is not None:
            columns.append(distinct.to_arrow(model.confidence(distinct.words, missing="zeros", threads=self.threads)))
        return columns, distinct, vectors

    def copy(self, table: Table, target: str | PathLike[str], progress: bool | None = False) -> Embedded:
        """Write the rows of an open table with the new columns; the file appears only when it is complete."""
        done = uncovered = missing = 0
        examples: list[str] = []
        total = None if table.groups is None else sum(table.groups)
        with (
            write_table(target, self.schema(table.schema), table.schema.names) as write,
            progress_bar("embedding", total, progress) as go,
        ):
            for batch in table.batches:
                words = batch.column(table.column)
                columns, distinct, vectors = self.embed(words, table.place, table.first + done)
                write([*batch.columns, *columns])
                covered = np.any(vectors, axis=1)
                zeros = np.flatnonzero(distinct.present & ~distinct.spread(covered))
                examples += words.take(zeros[: EXAMPLES - len(examples)]).to_pylist()
                uncovered += len(zeros)
                missing += len(words) - int(distinct.present.sum())
                done += len(words)
                go(len(words), note=f"{done:,} words")
        return Embedded(1, 0, done, uncovered, examples, missing)


@lru_cache(maxsize=2)
def load_once(path: str | None, job: str) -> Model:
    """Load a model, once in a process for each job; a later job may find another model there."""
    return load(path)


def embed_table(
    model: Model,
    source: str | PathLike[str] | Table,
    target: str | PathLike[str],
    *,
    threads: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Embedded:
    """Copy a table and add a column of vectors, or two; the file appears only when it is complete.

    Args:
        model: The model.
        source: The file: .parquet, .pq, .arrow, .feather, .ipc, .csv or .tsv (possibly compressed); or an open one.
        target: The new file, of any of these kinds except for the last two.
        threads: The number of threads; None for one per core.
        progress: Whether to show a progress bar; None for "if stderr is a terminal".
        **options: `column`, `vector_column`, `confidence_column`, `missing` and `exact`, as for `Embedder`. In CSV, all
            columns are strings, so the column of words is "word" unless it is given.

    Returns:
        How many words there were, how many without a known subword, and how many missing.
    """
    embedder = Embedder(model, threads=threads, **options)
    with nullcontext(source) if isinstance(source, Table) else open_table(source, embedder.column) as table:
        return embedder.copy(table, target, progress)
