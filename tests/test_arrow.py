"""Arrow columns and tables: the vectors are those of `model.embed` on Python strings, to the bit."""

import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import feather, parquet

import pbos
from pbos.adapters import arrow
from pbos.adapters.arrow import codes_of, embed_arrow, embed_table
from pbos.errors import FormatError, InputError
from pbos.spelling import Spelling
from pbos.text import CodeTable

SPELLINGS = [
    Spelling(),
    Spelling("NFKC", boundaries=True),
    Spelling("casefold", boundaries=True, inner_boundaries=True),
    Spelling("NFC", boundaries=True, inner_boundaries=True),
    Spelling("none", boundaries=True, inner_boundaries=True),
]
WORDS = ["unfriendliest", "naïvety", "covfefe", "state-of-the-art", "ЖЖЖ", "日本", "e\u0301te\u0301", "𝔘𝔫", "😀x"]
KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
# Characters that join, move, fold or come apart: marks, Hangul, Indic vowels, ligatures, signs of all widths in UTF-8.
ODD = "e\u0301\u0323\u0315ßİſﬁÅ가각\u1100\u1161\u11a8\u09c7\u09be\u0344क़ｆＡ①½²-'_ \x00\u00ad\u200d\U00016d67😀𝔘𐐀"


@pytest.fixture(scope="module")
def model():
    return pbos.load()


def matrix(vectors):
    """The vectors of a column of lists without nulls."""
    return np.array(vectors.to_pylist(), np.float32).reshape(len(vectors), vectors.type.list_size)


def large(words):
    return pa.array(words, pa.large_string())


# -- code points -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.normalization)
@given(words=st.lists(st.text(st.sampled_from(ODD) | st.characters(exclude_categories=["Cs"]), min_size=1), max_size=8))
@example(words=[])
@example(words=["e\u0301", "ab", "a\u0323\u0301"])
def test_words_are_laid_out_as_from_python_strings(spelling, words):
    found, expected = codes_of(spelling, large(words)), spelling.codes(words)
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert found.codes.tolist() == expected.codes.tolist()


@pytest.mark.parametrize("spelling", SPELLINGS[1:4], ids=lambda spelling: spelling.normalization)
def test_every_character_alone_and_between_others(spelling):
    assigned = (*range(0xD800), *range(0xE000, 0x32400), *range(0xE0000, 0xE0200), sys.maxunicode)
    characters = [chr(code) for code in assigned]
    assert {unicodedata.category(chr(code)) for code in range(0x32400, 0xE0000)} == {"Cn"}
    for words in (characters, [f"A{character}e" for character in characters]):
        found, expected = codes_of(spelling, large(words)), spelling.codes(words)
        assert np.array_equal(found.offsets, expected.offsets)
        assert np.array_equal(found.codes, expected.codes)


def test_few_words_take_the_way_through_python_strings():
    """Plain words of most scripts are laid out by the kernel alone."""
    plain = ["naïvety", "Straße", "ελληνικά", "русский", "日本語", "한국어", "हिन", "don't", "ﬂ"]
    assert all(unicodedata.is_normalized("NFC", word) for word in plain)
    entries = CodeTable.of("NFC").entries(np.array([ord(c) for word in plain for c in word], np.uint32))
    assert not (entries & CodeTable.CHANGES).any()
    entries = CodeTable.of("casefold").entries(np.array([ord(c) for c in "ABCÄÖÜΣЖ"], np.uint32))
    assert not (entries & CodeTable.CHANGES).any()


@given(raw=st.binary(min_size=1, max_size=6) | st.sampled_from([b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]))
@example(raw=b"\xe0\x80\x80")
@example(raw=b"\xf0\x8f\xbf\xbf")
@example(raw=b"\xf5\x80\x80\x80")
@example(raw=b"a\xc3")
@example(raw=b"\xff")
def test_what_is_not_utf8_is_named(model, raw):
    content = b"ok" + raw
    ends = np.array([0, 2, len(content)], np.int32)
    words = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(content)])
    try:
        expected = raw.decode()
    except UnicodeDecodeError:
        with pytest.raises(InputError, match="word 1 is not UTF-8: "):
            embed_arrow(model, words)
    else:
        assert np.array_equal(matrix(embed_arrow(model, words)), model.embed(["ok", expected]))


def test_damaged_offsets_are_refused(model):
    """Those that pyarrow itself does not look at."""
    for ends in ([0, 5, 2, 6], [0, 99, 99, 6]):
        buffers = [None, pa.py_buffer(np.array(ends, np.int64).tobytes()), pa.py_buffer(b"abcdef")]
        words = pa.Array.from_buffers(pa.large_string(), 3, buffers)
        with pytest.raises(InputError, match="damaged"):
            codes_of(model.spelling, words)


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
        vectors = embed_arrow(model, column, threads=1)
        vectors.validate(full=True)
        rows = part if isinstance(column, pa.Array) else part * 2
        assert vectors.is_null().to_pylist() == [word is None for word in rows]
        given_words = [word for word in rows if word is not None]
        assert np.array_equal(matrix(vectors.drop_null()).ravel(), model.embed(given_words).ravel())


def test_a_chunked_column_keeps_its_chunks(model):
    column = pa.chunked_array([["high"], [], ["low", None]], pa.string())
    vectors = embed_arrow(model, column)
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
    column = arrow.as_vectors(vectors, np.array([True, False, True]))
    assert column.to_pylist() == [[0, 1], None, [4, 5]]
    assert column.values.buffers()[1].address == vectors.ctypes.data


def test_unused_entries_of_a_dictionary_are_left_alone(model):
    column = pa.DictionaryArray.from_arrays(pa.array([2, None, 1, 2], pa.uint8()), pa.array(["", None, "high", "low"]))
    vectors = embed_arrow(model, column)
    assert vectors.is_null().to_pylist() == [False, True, True, False]
    assert np.array_equal(matrix(vectors.drop_null()), model.embed(["high", "high"]))


def test_exact_vectors():
    targets = {"high": [1.0, 0.0], "higher": [1.0, 1.0], "lower": [0.0, 1.0]}
    model = pbos.train(targets, keep_targets=True)
    vectors = embed_arrow(model, pa.array(["lower", None, "low"]), exact=True)
    assert vectors[0].as_py() == [0.0, 1.0]
    assert not vectors[1].is_valid
    assert vectors[2].as_py() == model["low"].tolist()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (pa.array(["a", None, ""]), "word 2 is empty"),
        (pa.array(["a", "", "a", ""]).dictionary_encode(), "word 1 is empty"),
        (pa.chunked_array([["a"], ["b", ""]]), "word 2 is empty"),
        (pa.array([1, 2]), "got int64; cast it to strings"),
        (pa.array([b"a"]), "got binary"),
        (pa.array([1, 1]).dictionary_encode(), "got dictionary"),
        (pa.table({"word": ["a"]}), "expected one column of words, got Table"),
        (pd.DataFrame({"word": ["a"]}), "expected one column of words, got DataFrame"),
        ("a", "expected one column of words, got str"),
        (["a", 1], "expected a column of words, got list"),
        (7, "expected a column of words, got int"),
    ],
)
def test_what_is_no_column_of_words_gets_one_sentence(model, words, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        embed_arrow(model, words)
    assert "\n" not in str(caught.value)


def test_an_empty_word_is_found_among_many(model):
    words = [f"word{number}" for number in range(9000)]
    words[8000] = ""
    with pytest.raises(InputError, match="word 8000 is empty"):
        embed_arrow(model, pa.array(words))
    with pytest.raises(InputError, match="word 8000 is empty"):
        embed_arrow(model, pa.array(words + words[8001:] * 20))


def test_nothing_but_nulls(model):
    assert embed_arrow(model, pa.array([None, None])).to_pylist() == [None, None]


# -- pandas, Polars, DuckDB --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [object, "str", "string", "category", pd.ArrowDtype(pa.string())], ids=str)
def test_pandas(model, dtype):
    series = pd.Series(["higher", None, "lower", "higher"], dtype=dtype)
    vectors = embed_arrow(model, series)
    assert vectors.is_null().to_pylist() == [False, True, False, False]
    assert np.array_equal(matrix(vectors.drop_null()), model.embed(["higher", "lower", "higher"]))
    back = pd.Series(vectors, dtype=pd.ArrowDtype(vectors.type))
    assert np.array_equal(np.float32(back[2]), model["lower"])


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical], ids=str)
def test_polars(model, dtype):
    series = pl.Series("word", ["higher", None, "lower"], dtype=dtype)
    vectors = pl.from_arrow(embed_arrow(model, series))
    assert vectors.dtype == pl.Array(pl.Float32, model.dims)
    assert vectors.is_null().to_list() == [False, True, False]
    assert np.array_equal(vectors.drop_nulls().to_numpy(), model.embed(["higher", "lower"]))


def test_duckdb(model):
    with duckdb.connect() as connection:
        connection.execute("create table words as select * from (values ('higher'), (null), ('lower')) as t(word)")
        table = connection.sql("select word from words").to_arrow_table()
        vectors = embed_arrow(model, table["word"])
        assert np.array_equal(matrix(vectors.drop_null()), model.embed(["higher", "lower"]))

        kind = f"FLOAT[{model.dims}]"
        options = {"type": "arrow", "null_handling": "special"}
        connection.create_function("embed", lambda words: embed_arrow(model, words), ["VARCHAR"], kind, **options)
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


@pytest.mark.parametrize("source", ["in.parquet", "in.feather"])
@pytest.mark.parametrize("target", ["out.parquet", "out.arrow"])
def test_tables_keep_their_columns(run, monkeypatch, model, source, target):
    monkeypatch.setattr(arrow, "ROWS", 2)  # so that there are several batches, with different dictionaries
    run("embed", "--help")  # which changes to the empty folder
    write(TABLE, source)
    code, out, err = run("embed", "-i", source, "--column", "word", "-o", target)
    assert (code, out, err) == (0, "", "")
    found = read(target)
    assert found.column_names == [*TABLE.column_names, "vector"]
    for name in TABLE.column_names:
        assert found[name].to_pylist() == TABLE[name].to_pylist()
    assert found["vector"].type == pa.list_(pa.float32(), model.dims)
    given_words = TABLE["word"].drop_null().to_pylist()
    assert found["vector"].is_null().to_pylist() == TABLE["word"].is_null().to_pylist()
    assert np.array_equal(matrix(found["vector"].drop_null()), model.embed(given_words))


def test_one_column_of_strings_needs_no_name_and_vectors_any(run, model):
    run("embed", "--help")
    write(TABLE.select(["id", "word"]), "in.parquet")
    assert run("embed", "-i", "in.parquet", "-o", "in.parquet", "--vector-column", "v")[0] == 0  # in its place
    assert read("in.parquet").column_names == ["id", "word", "v"]


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


def test_words_without_a_vector_are_named(run):
    run("embed", "--help")
    write(pa.table({"word": ["higher", "ЖЖ", None]}), "in.parquet")
    _, _, err = run("embed", "-i", "in.parquet", "-o", "out.parquet")
    assert err == "pbos: warning: 1 word has no subword with a vector and got zeros: ЖЖ\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("-i in.parquet -o out.parquet", "in.parquet has 2 columns of strings (word, kind); name the one with the"),
        ("-i numbers.parquet -o out.parquet", "numbers.parquet has no column of strings"),
        ("-i in.parquet --column w -o out.parquet", 'no column "w"; its columns are: id, word, kind, more'),
        ("-i in.parquet --column id -o out.parquet", 'column "id" of in.parquet holds int64, not strings'),
        ("-i in.parquet --column word --vector-column id -o out.parquet", 'already has a column "id"'),
        ("-i in.parquet --column word -o out.npy", 'in.parquet, row 1 of column "word": null can be kept in a table'),
        ("-i empty.parquet -o out.parquet", 'empty.parquet, row 2 of column "word": the word is empty'),
        ("-i empty.parquet -o out.txt", 'empty.parquet, row 2 of column "word": an empty word has no spelling'),
        ("-i twice.arrow --column word -o out.parquet", 'twice.arrow has 2 columns "word"'),
        ("-i text.parquet -o out.parquet", "text.parquet: not a sound Parquet file"),
        ("-i text.arrow -o out.parquet", "text.arrow: not a sound Arrow file"),
        ("-i cut.parquet --column word -o out.parquet", "cut.parquet: not a sound Parquet file"),
        ("-i none.parquet -o out.parquet", "no such file or directory: none.parquet"),
        ("-i in.parquet --column word -o no/out.parquet", "no such file or directory"),
        ("high -o out.parquet --json", "--json writes text; choose an output file that does not end in .parquet"),
        ("high -o out.npy --json", "--json writes text; choose an output file that does not end in .npy"),
        ("high -o out.txt --column word", "--column is for tables"),
        ("high -o out.parquet --column vector", "cannot both be in the column"),
        ("high -i in.parquet -o out.parquet", "give words as arguments or a file with --input, not both"),
    ],
)
def test_bad_tables_get_one_sentence_and_leave_nothing(run, tmp_path, arguments, sentence):
    run("embed", "--help")
    write(TABLE, "in.parquet")
    write(TABLE.select(["id"]), "numbers.parquet")
    write(pa.table({"word": ["a", "b", ""]}), "empty.parquet")
    with pa.OSFile("twice.arrow", "wb") as stream:
        twice = pa.table([pa.array(["a"]), pa.array(["b"])], names=["word", "word"])
        with pa.ipc.new_file(stream, twice.schema) as writer:
            writer.write_table(twice)
    for name in ("text.parquet", "text.arrow"):
        Path(name).write_text("high\nlow\n", encoding="utf-8")
    content = bytearray(Path("in.parquet").read_bytes())
    content[4:60] = bytes(56)  # the pages; the footer is whole
    Path("cut.parquet").write_bytes(content)
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


def test_the_same_without_a_compiler():
    """The kernels are plain Python too."""
    code = """
import pyarrow as pa
from pbos.adapters.arrow import codes_of
from pbos.spelling import Spelling
for spelling in (Spelling(), Spelling("casefold", boundaries=True, inner_boundaries=True)):
    words = ["Naïvety", "x-ray", "e\\u0301", "日本", "😀"]
    found, expected = codes_of(spelling, pa.array(words, pa.large_string())), spelling.codes(words)
    assert found.codes.tolist() == expected.codes.tolist() and found.offsets.tolist() == expected.offsets.tolist()
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
