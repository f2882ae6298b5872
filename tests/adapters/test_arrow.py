"""Arrow columns and tables: the vectors are those of `model.embed` on Python strings, to the bit."""

import functools
import pickle
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

import pbos
from pbos.adapters import arrow
from pbos.adapters.arrow import Embedded, Embedder, confidence_arrow, embed_arrow, embed_table
from pbos.errors import FormatError, InputError
from pbos.tables import columns
from pbos.tables.columns import words_of_table

WORDS = ["unfriendliest", "naïvety", "covfefe", "state-of-the-art", "ЖЖЖ", "日本", "e\u0301te\u0301", "𝔘𝔫", "😀x"]
KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


@pytest.fixture(scope="module")
def model():
    return pbos.load()


def matrix(vectors):
    """The vectors of a column of lists without nulls."""
    return np.array(vectors.to_pylist(), np.float32).reshape(len(vectors), vectors.type.list_size)


# -- columns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_kinds_of_string_columns(model, kind):
    column = pa.array(WORDS).cast(kind) if pa.types.is_dictionary(kind) else pa.array(WORDS, kind)
    vectors = embed_arrow(model, column)
    assert vectors.type == pa.list_(pa.float32(), model.dims)
    vectors.validate(full=True)
    assert np.array_equal(matrix(vectors), model.embed(WORDS))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_nulls_slices_and_repeats(model, kind, data):
    words = data.draw(st.lists(st.none() | st.sampled_from(WORDS[:4]) | st.text("abé", min_size=1), max_size=30))
    first = data.draw(st.integers(0, len(words)))
    whole = pa.array(words, pa.string()).cast(kind) if pa.types.is_dictionary(kind) else pa.array(words, kind)
    part = words[first:]
    for column in (whole[first:], pa.chunked_array([whole[first:first], whole[first:], whole[first:]])):
        vectors = embed_arrow(model, column, missing="null", threads=1)
        vectors.validate(full=True)
        rows = part if isinstance(column, pa.Array) else part * 2
        assert vectors.is_null().to_pylist() == [word is None for word in rows]
        given_words = [word for word in rows if word is not None]
        assert np.array_equal(matrix(vectors.drop_null()).ravel(), model.embed(given_words).ravel())


def test_a_chunked_column_keeps_its_chunks(model):
    column = pa.chunked_array([["high"], [], ["low", None]], pa.string())
    vectors = embed_arrow(model, column, missing="null")
    assert [len(chunk) for chunk in vectors.chunks] == [1, 0, 2]
    assert embed_arrow(model, pa.chunked_array([], pa.string())).to_pylist() == []
    table = pa.table({"word": column}).append_column("vector", vectors)
    assert table.num_rows == 3
    different = pa.chunked_array([pa.array(["low", "high"]).dictionary_encode(), pa.array(["x"]).dictionary_encode()])
    assert np.array_equal(matrix(embed_arrow(model, different)), model.embed(["low", "high", "x"]))


def test_threads_and_many_words(model):
    words = [f"{word}{number}" for number in range(1200) for word in WORDS]
    expected = model.embed(words)
    for threads in (1, 3):
        assert np.array_equal(embed_arrow(model, pa.array(words), threads=threads).values, expected.ravel())
    repeated = words * 3
    assert np.array_equal(embed_arrow(model, pa.array(repeated), threads=3).values, np.tile(expected, (3, 1)).ravel())


def test_the_vectors_are_not_copied():
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    column = arrow.Distinct(["a", None, "b"], "null").to_arrow(vectors)
    assert column.to_pylist() == [[0, 1], None, [4, 5]]
    assert column.values.buffers()[1].address == vectors.ctypes.data


def test_unused_entries_of_a_dictionary_are_left_alone(model):
    column = pa.DictionaryArray.from_arrays(pa.array([2, None, 1, 2], pa.uint8()), pa.array(["", None, "high", "low"]))
    vectors = embed_arrow(model, column, missing="null")
    assert vectors.is_null().to_pylist() == [False, True, True, False]
    assert np.array_equal(matrix(vectors.drop_null()), model.embed(["high", "high"]))


def test_exact_vectors():
    targets = {"high": [1.0, 0.0], "higher": [1.0, 1.0], "lower": [0.0, 1.0]}
    model = pbos.train(targets, keep_targets=True)
    vectors = embed_arrow(model, pa.array(["lower", None, "low"]), missing="null", exact=True)
    assert vectors[0].as_py() == [0.0, 1.0]
    assert not vectors[1].is_valid
    assert vectors[2].as_py() == model["low"].tolist()


def test_a_table_needs_the_name_of_one(model, tmp_path):
    parquet.write_table(pa.table({"word": ["low"]}), tmp_path / "in.parquet")
    with pytest.raises(InputError, match=r"out\.txt is not a name for a table"):
        embed_table(model, tmp_path / "in.parquet", tmp_path / "out.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (pa.array(["a", "b", ""]), "word 2 is an empty string; drop such words, or use missing="),
        (pa.array(["a", None, ""]), r"word 1 is missing \(null\)"),
        (pa.array(["a", "", "a", ""]).dictionary_encode(), "word 1 is an empty string"),
        (pa.chunked_array([["a"], ["b", ""]]), "word 2 is an empty string"),
        (pa.array([None, None]), "word 0 is missing"),
        (pa.array([1, 2]), "got int64; cast it to strings"),
        (pa.array([b"a"]), "got binary"),
        (pa.array([1, 1]).dictionary_encode(), "got dictionary"),
        (pa.table({"word": ["a"]}), "expected a column of words, got Table"),
        (pd.DataFrame({"word": ["a"]}), "expected a column of words, got DataFrame"),
        ("a", "expected a column of words, got str"),
        (["a", 1], "expected a column of words, got list"),
        (["a\ud800"], "expected a column of words, got list .*surrogates not allowed"),
        (7, "expected a column of words, got int"),
    ],
)
def test_bad_columns_get_one_sentence(model, words, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        embed_arrow(model, words)
    assert "\n" not in str(caught.value)


def test_a_missing_word_is_found_among_many(model):
    words = [f"word{number}" for number in range(9000)]
    words[8000] = ""
    with pytest.raises(InputError, match="word 8000 is an empty string"):
        embed_arrow(model, pa.array(words))
    with pytest.raises(InputError, match="word 8000 is an empty string"):
        embed_arrow(model, pa.array(words + words[8001:] * 20))


@pytest.mark.parametrize("repeats", [1, 5])  # distinct words, and repeated ones
def test_missing_words(model, repeats):
    words = ["higher", None, "", "lower"] * repeats
    present = [bool(word) for word in words]
    expected = model.embed([word for word in words if word])
    zeros = embed_arrow(model, pa.array(words), missing="zeros")
    assert zeros.null_count == 0
    assert np.array_equal(matrix(zeros)[present], expected)
    assert not matrix(zeros)[~np.array(present)].any()
    nulls = embed_arrow(model, pa.array(words), missing="null")
    assert nulls.is_valid().to_pylist() == present
    assert np.array_equal(matrix(nulls.drop_null()), expected)
    assert embed_arrow(model, pa.array([None, None]), missing="null").to_pylist() == [None, None]
    with pytest.raises(InputError, match="unknown missing 'drop'; choose one of: error, zeros, null"):
        embed_arrow(model, pa.array(words), missing="drop")


@pytest.mark.parametrize("raw", [b"\xff", b"a\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
def test_a_word_that_is_not_utf8_is_an_error(model, raw):
    ends = np.array([0, 2, 2 + len(raw)], np.int32)
    words = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"ok" + raw)])
    with pytest.raises(InputError, match=r"the column of words is damaged \(Invalid UTF8 sequence at string index 1\)"):
        embed_arrow(model, words)


@pytest.mark.parametrize("ends", [[0, 5, 2, 6], [0, 99, 99, 6]])
def test_damaged_offsets_are_an_error(model, ends):
    buffers = [None, pa.py_buffer(np.array(ends, np.int64).tobytes()), pa.py_buffer(b"abcdef")]
    with pytest.raises(InputError, match="damaged"):
        embed_arrow(model, pa.Array.from_buffers(pa.large_string(), 3, buffers))


@pytest.mark.parametrize("repeats", [1, 5])
def test_confidence(confident, small_vectors, repeats):
    words = [*small_vectors.words[1495:1520], None, "", "ЖЖ"] * repeats
    expected = np.array([confident.confidence(word) if word else 0 for word in words])
    assert expected.min() == 0 and expected.max() == 1 and len(set(expected)) > 8
    for column in (pa.array(words), pa.array(words).dictionary_encode(), pa.chunked_array([words[:3], words[3:]])):
        zeros = confidence_arrow(confident, column, missing="zeros")
        assert zeros.type == pa.float32() and zeros.null_count == 0
        np.testing.assert_allclose(zeros.to_numpy(), expected, atol=1e-5)
        nulls = confidence_arrow(confident, column, missing="null", threads=1)
        nulls.validate(full=True)
        assert nulls.is_valid().to_pylist() == [bool(word) for word in words]
        assert nulls.drop_null().to_pylist() == pytest.approx(expected[[bool(word) for word in words]], abs=1e-5)
    assert [len(chunk) for chunk in nulls.chunks] == [3, len(words) - 3]
    assert confidence_arrow(confident, pa.array([], pa.string())).to_pylist() == []
    with pytest.raises(InputError, match=r"word 25 is missing \(null\)"):
        confidence_arrow(confident, pa.array(words))


def test_confidence_of_a_model_without_one():
    model = pbos.train({"high": [1.0, 0.0], "higher": [1.0, 1.0]})
    with pytest.raises(InputError, match="this model has no confidence"):
        confidence_arrow(model, pa.array(["high"]))


class Counting:
    """A model that counts the words it embeds."""

    def __init__(self, model):
        self.model, self.dims, self.count = model, model.dims, 0

    def embed(self, words, **options):
        self.count += len(words)
        return self.model.embed(words, **options)


def test_repeated_words_and_entries_of_a_dictionary_are_embedded_once(model):
    column = pa.array(["higher", "lower", None, "higher"] * 100)
    for repeated in (column, column.dictionary_encode(), pa.chunked_array([column, column])):
        counting = Counting(model)
        vectors = embed_arrow(counting, repeated, missing="zeros")
        assert counting.count == 3
        assert np.array_equal(matrix(vectors), model.embed(repeated, missing="zeros"))
    large = pa.DictionaryArray.from_arrays(
        pa.array([7, 7, 9, 7]), pa.array([f"word{number}" for number in range(5000)])
    )
    counting = Counting(model)
    embed_arrow(counting, large)
    assert counting.count == 2


# -- pandas, Polars, DuckDB --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [object, "str", "string", "category", pd.ArrowDtype(pa.string())], ids=str)
def test_pandas(model, dtype):
    series = pd.Series(["higher", None, "lower", "higher"], dtype=dtype)
    vectors = embed_arrow(model, series, missing="null")
    assert vectors.is_null().to_pylist() == [False, True, False, False]
    assert np.array_equal(matrix(vectors.drop_null()), model.embed(["higher", "lower", "higher"]))
    back = pd.Series(vectors, dtype=pd.ArrowDtype(vectors.type))
    assert np.array_equal(np.float32(back[2]), model["lower"])


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical], ids=str)
def test_polars(model, dtype):
    series = pl.Series("word", ["higher", None, "lower"], dtype=dtype)
    vectors = pl.from_arrow(embed_arrow(model, series, missing="null"))
    assert vectors.dtype == pl.Array(pl.Float32, model.dims)
    assert vectors.is_null().to_list() == [False, True, False]
    assert np.array_equal(vectors.drop_nulls().to_numpy(), model.embed(["higher", "lower"]))


def test_duckdb(model):
    with duckdb.connect() as connection:
        connection.execute("create table words as select * from (values ('higher'), (null), ('lower')) as t(word)")
        table = connection.sql("select word from words").to_arrow_table()
        vectors = embed_arrow(model, table["word"], missing="null")
        assert np.array_equal(matrix(vectors.drop_null()), model.embed(["higher", "lower"]))

        kind = f"FLOAT[{model.dims}]"
        options = {"type": "arrow", "null_handling": "special"}
        embed = functools.partial(embed_arrow, model, missing="null")
        connection.create_function("embed", lambda words: embed(words), ["VARCHAR"], kind, **options)
        rows = connection.sql("select word, embed(word) from words").fetchall()
        assert dict(rows)[None] is None
        assert np.array_equal(np.float32(dict(rows)["lower"]), model["lower"])
        ((near,),) = connection.sql("select array_cosine_similarity(embed('king'), embed('queen'))").fetchall()
        assert near == pytest.approx(model.similarity("king", "queen"), abs=1e-6)


# -- files -------------------------------------------------------------------------------------------------------------

TABLE = pa.table(
    {
        "id": [1, 2, 3, 4, 5],
        "word": ["higher", None, "x-ray", "naïvety", "higher"],
        "kind": pa.array(["a", "b", "a", None, "b"]).dictionary_encode(),
        "more": [[1], [], None, [2, 3], [4]],
    }
)


def write(table, path):
    if path.endswith((".parquet", ".pq")):
        parquet.write_table(table, path)
    else:
        feather.write_feather(table, path)


def read(path):
    return parquet.read_table(path) if str(path).endswith((".parquet", ".pq")) else feather.read_table(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("source", ["in.parquet", "in.feather"])
@pytest.mark.parametrize("target", ["out.parquet", "out.arrow"])
def test_tables_keep_their_columns(folder, monkeypatch, model, source, target):
    monkeypatch.setattr(columns, "ROWS", 2)  # so that there are several batches, with different dictionaries
    write(TABLE, source)
    embed_table(model, source, target, column="word", missing="null")
    found = read(target)
    assert found.column_names == [*TABLE.column_names, "vector"]
    for name in TABLE.column_names:
        assert found[name].to_pylist() == TABLE[name].to_pylist()
    assert found["vector"].type == pa.list_(pa.float32(), model.dims)
    given_words = TABLE["word"].drop_null().to_pylist()
    assert found["vector"].is_null().to_pylist() == TABLE["word"].is_null().to_pylist()
    assert np.array_equal(matrix(found["vector"].drop_null()), model.embed(given_words))


def test_missing_words_of_tables(folder, monkeypatch, model):
    monkeypatch.setattr(columns, "ROWS", 2)
    words = ["higher", "lower", "x-ray", None, ""]
    write(pa.table({"word": words}), "in.parquet")
    place = r'in.parquet, column "word", row 4 is missing \(null\); drop such words, or use missing="zeros"'
    with pytest.raises(InputError, match=place):
        embed_table(model, "in.parquet", "out.parquet")
    assert list(words_of_table("in.parquet", "word")) == ["higher", "lower", "x-ray", "", ""]
    embed_table(model, "in.parquet", "out.parquet", missing="zeros")
    found = read("out.parquet")["vector"]
    assert np.array_equal(matrix(found[:3]), model.embed(words[:3]))
    assert found.null_count == 0 and not matrix(found[3:]).any()
    write(pa.table({"word": ["a", "b", ""]}), "empty.parquet")
    with pytest.raises(InputError, match=r'empty.parquet, column "word", row 3 is an empty string'):
        embed_table(model, "empty.parquet", "out.parquet")


def test_the_only_column_of_strings_needs_no_name(folder, model):
    write(TABLE.select(["id", "word"]), "in.parquet")
    embed_table(model, "in.parquet", "in.parquet", vector_column="v", missing="null")  # replaces the file
    assert read("in.parquet").column_names == ["id", "word", "v"]


def test_words_without_a_vector_are_reported(folder, monkeypatch, model):
    monkeypatch.setattr(columns, "ROWS", 2)
    words = ["higher", None, "Ж", "ЖЖ", "Ю", "", "lower", "Я", "Э", "ЮЮ", "ЯЯ"]
    write(pa.table({"word": words}), "in.parquet")
    done = embed_table(model, "in.parquet", "out.parquet", missing="zeros")
    zeros = [word for word in words if word and not model[word].any()]
    assert len(zeros) > 5
    assert done == Embedded(1, 0, len(words), len(zeros), zeros[:5], 2)


def test_text_to_table_and_table_to_text(run, model):
    run("embed", "--help")
    Path("words.txt").write_text("higher\nx-ray\n", encoding="utf-8")
    assert run("embed", "-i", "words.txt", "-o", "out.parquet")[0] == 0
    assert read("out.parquet")["word"].to_pylist() == ["higher", "x-ray"]
    assert np.array_equal(matrix(read("out.parquet")["vector"]), model.embed(["higher", "x-ray"]))
    assert run("embed", "low", "-o", "out.feather", "--column", "w", "--vector-column", "v")[0] == 0
    assert read("out.feather").column_names == ["w", "v"]
    assert run("embed", "-i", "out.parquet", "-o", "out.npy")[0] == 0
    assert np.array_equal(np.load("out.npy"), model.embed(["higher", "x-ray"]))
    code, out, _ = run("embed", "-i", "out.parquet", "--column", "word")
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["higher", "x-ray"])


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        ("in.parquet", {}, "in.parquet has 2 columns of strings; choose one of its columns: id (int64), word (string)"),
        ("numbers.parquet", {}, "numbers.parquet has 0 columns of strings; choose"),
        ("in.parquet", {"column": "w"}, 'in.parquet has 0 columns of strings named "w"; choose'),
        ("in.parquet", {"column": "id"}, 'in.parquet has 0 columns of strings named "id"; choose'),
        ("in.parquet", {"column": "word", "vector_column": "id"}, 'already has a column "id"'),
        ("twice.arrow", {"column": "word"}, 'twice.arrow has 2 columns of strings named "word"'),
        ("text.parquet", {}, "text.parquet is damaged, or not the kind of table its name says"),
        ("text.arrow", {}, "text.arrow is damaged, or not the kind of table its name says"),
        ("cut.parquet", {"column": "word", "missing": "null"}, "cut.parquet is damaged, or not the kind of table"),
        ("latin.arrow", {}, "latin.arrow is damaged, or not the kind of table its name says (In column 0: Inval"),
    ],
)
def test_bad_tables_get_one_sentence_and_leave_nothing(folder, model, source, options, sentence):
    write(TABLE, "in.parquet")
    write(TABLE.select(["id"]), "numbers.parquet")
    buffers = [None, pa.py_buffer(np.array([0, 2], np.int32).tobytes()), pa.py_buffer(b"a\xe9")]
    for name, table in {
        "twice.arrow": pa.table([pa.array(["a"]), pa.array(["b"])], names=["word", "word"]),
        "latin.arrow": pa.table({"word": pa.Array.from_buffers(pa.string(), 1, buffers)}),
    }.items():
        with pa.OSFile(name, "wb") as stream, pa.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)
    for name in ("text.parquet", "text.arrow"):
        Path(name).write_text("high\nlow\n", encoding="utf-8")
    content = bytearray(Path("in.parquet").read_bytes())
    content[4:60] = bytes(56)  # the pages; the footer is complete
    Path("cut.parquet").write_bytes(content)
    before = sorted(folder.iterdir())
    with pytest.raises((InputError, FormatError)) as caught:
        embed_table(model, source, "out.parquet", **options)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("-i none.parquet -o out.parquet", "no such file or directory: none.parquet"),
        ("-i in.parquet --column id -o out.parquet", 'in.parquet has 0 columns of strings named "id"'),
        (
            "-i in.parquet --column word -o out.parquet --missing error",
            'in.parquet, column "word", row 2 is missing (null)',
        ),
        ("-i in.parquet --column word -o out.npy --missing error", "in.parquet, row 2: no word here"),
        ("-i in.parquet --column word -o no/out.parquet", "no such file or directory"),
        ("high -o out.parquet --json", "--json writes JSON lines; name the output .jsonl"),
        ("high -o out.txt --column word", "--column is for tables"),
        ("high -o out.parquet --column vector", 'already has a column "vector"'),
        ("high -i in.parquet -o out.parquet", "give words as arguments or a file with --input, not both"),
    ],
)
def test_bad_commands_get_one_sentence_and_leave_nothing(run, tmp_path, arguments, sentence):
    run("embed", "--help")  # changes to the empty folder
    write(TABLE, "in.parquet")
    before = sorted(tmp_path.iterdir())
    code, out, err = run("embed", *arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("pbos: ") and err.count("\n") == 1
    assert sentence in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_is_there_stays_when_embedding_fails(model, tmp_path):
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    parquet.write_table(pa.table({"word": ["a", ""]}), source)
    target.write_bytes(b"as it was")
    with pytest.raises(InputError):
        embed_table(model, source, target)
    assert target.read_bytes() == b"as it was"
    source.write_bytes(b"PAR1")
    with pytest.raises(FormatError):
        embed_table(model, source, target)


def test_without_pyarrow_the_extra_is_named(tmp_path):
    code = "import sys; sys.modules['pyarrow'] = None; import pbos.cli; pbos.cli.main()"
    command = [sys.executable, "-c", code, "embed", "high", "-o", str(tmp_path / "out.parquet")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith('install it with: pip install "pbos[arrow]"\n')
    assert done.stderr.count("\n") == 1


# -- a function to send ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.table, pa.record_batch])
def test_an_embedder_adds_columns(confident, tmp_path, kind):
    confident.save(tmp_path / "model")
    table = kind({"id": [1, 2, 3], "word": [confident.words[0], None, "ЖЖ"]})
    embedder = Embedder(tmp_path / "model", column="word", confidence_column="trust", missing="null")
    (batch,) = embedder(iter([table]))
    for made in (embedder(table), pickle.loads(pickle.dumps(embedder))(table), batch):
        assert type(made) is type(table)
        assert made.schema.names == ["id", "word", "vector", "trust"]
        assert made.column("vector").is_null().to_pylist() == [False, True, False]
        assert np.array_equal(made.column("vector")[0].as_py(), confident.embed(confident.words[0]))
        assert made.column("trust").to_pylist() == [1, None, 0]
    assert embedder(table).schema.field("vector").type == pa.list_(pa.float32(), confident.dims)
    assert batch.schema.field("vector").type == pa.list_(pa.float32())  # Spark knows no lists of a fixed size


def test_an_embedder_is_small_and_loads_its_model_once(model, confident, tmp_path, monkeypatch):
    loads = []
    monkeypatch.setattr(arrow, "load", lambda path: loads.append(path) or pbos.load(path))
    confident.save(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    sent = pickle.dumps(Embedder("model"))
    assert len(sent) < 1000
    monkeypatch.chdir("/")
    table = pa.table({"word": ["higher"]})
    for _ in range(3):
        assert np.array_equal(matrix(pickle.loads(sent)(table)["vector"]), confident.embed(["higher"]))
    assert loads == [str(tmp_path / "model")]
    model.save(tmp_path / "model")  # another model at the same place is for later embedders
    assert np.array_equal(matrix(Embedder(tmp_path / "model")(table)["vector"]), model.embed(["higher"]))
    assert Embedder(model)(table).equals(Embedder()(table))


@pytest.mark.parametrize(
    ("table", "options", "sentence"),
    [
        ({"word": ["a", None]}, {}, "word 1 is missing"),
        ({"word": [1]}, {}, "the table has 0 columns of strings; choose one of its columns: word"),
        ({"word": ["a"], "vector": [1]}, {}, 'the table already has a column "vector"'),
        ({"word": ["a"]}, {"confidence_column": "vector"}, 'the table already has a column "vector"'),
        ({"word": ["a"]}, {"exact": True}, "this model does not have the given vectors"),
        ({"word": ["a"]}, {"missing": "nonsense"}, "unknown missing"),
    ],
)
def test_what_an_embedder_cannot_do(table, options, sentence):
    with pytest.raises(InputError) as caught:
        Embedder(**options)(pa.table(table))
    assert sentence in str(caught.value)
