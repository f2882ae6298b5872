import bz2
import gzip
import importlib
import io
import json
import lzma
import mmap
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import pbos
from pbos.errors import FormatError, InputError, MissingExtraError, PbosWarning
from pbos.kernels.numbers import parse_lines, parse_number
from pbos.tables import formats, text, word_vectors
from pbos.tables.word_vectors import WordVectors

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
if find_spec("zstandard"):
    COMPRESS[".zst"] = importlib.import_module("zstandard").compress
HIGH = WordVectors(["high", "higher", "größer", "高い", "new york"], [[1, 0], [0.5, -2], [1e-30, 3], [-0.0, 7], [8, 9]])


def same(left, right):
    """Equal words and the same bits, so that -0.0 counts as different from 0.0."""
    return left.words == right.words and left.vectors.tobytes() == right.vectors.tobytes()


@pytest.fixture
def write(tmp_path):
    """Write bytes to a file whose name says nothing about the format, and return its path."""

    def write_bytes(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_bytes


def binary(*pairs, header=None, end=b""):
    """Literal bytes of word2vec's binary format."""
    dims = len(pairs[0][1])
    records = [word + b" " + struct.pack(f"<{dims}f", *values) + end for word, values in pairs]
    return (header or b"%d %d\n" % (len(pairs), dims)) + b"".join(records)


# The class


def test_words_and_vectors():
    assert len(HIGH) == 5
    assert HIGH.dims == HIGH.vector_size == 2
    assert "higher" in HIGH
    assert "lower" not in HIGH
    assert HIGH["higher"].tolist() == [0.5, -2]
    assert repr(HIGH) == "WordVectors(5 words, 2 dims)"
    with pytest.raises(KeyError, match="lower"):
        HIGH["lower"]


def test_the_vectors_of_many_words():
    assert HIGH[["higher", "new york", "higher"]].tolist() == [[0.5, -2], [8, 9], [0.5, -2]]
    assert HIGH[np.array(["new york"])].tolist() == [[8, 9]]
    assert HIGH[[]].shape == (0, 2)
    with pytest.raises(KeyError, match="lower"):
        HIGH[["high", "lower"]]
    with pytest.raises(InputError, match="expected words"):
        HIGH[0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", "int8"])
def test_every_real_type_becomes_float32(dtype):
    vectors = WordVectors(["a", "b"], np.array([[1, 2], [3, 4]], dtype)).vectors
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[1, 2], [3, 4]]


def test_a_float32_matrix_is_not_copied():
    matrix = np.ones((2, 3), np.float32)
    assert np.shares_memory(WordVectors(["a", "b"], matrix).vectors, matrix)


@pytest.mark.parametrize(
    ("words", "matrix", "message"),
    [
        (["a"], [[1, 2], [3, 4]], "1 words but 2 vectors"),
        (["a"], [1, 2], r"shape \(words, dimensions\), got \(2,\)"),
        (["a"], [[]], r"got \(1, 0\)"),
        (["a", "b"], [[1, 2], [3]], "row 2: the vector has 1 values, the first one 2; all need the same length"),
        (["a"], [["1", "2"]], "real numbers, got dtype <U1"),
        (["a"], [[1j, 2]], "real numbers, got dtype complex128"),
        (["a", "b"], [[1e39, 0], [1, np.nan]], "word vectors: all vectors of words contain NaN or infinity"),
        (["a", ""], [[1, -np.inf], [3, 4]], "all vectors of words contain NaN or infinity"),
        (["a"], np.ma.array([[1.0, 2.0]], mask=[[0, 1]]), "some values are masked"),
        ("ab", [[1], [2]], "expected a list of words"),
        ([1], [[1]], "not a str but int"),
    ],
)
def test_bad_vectors_are_an_error(words, matrix, message):
    with pytest.raises(InputError, match=message):
        WordVectors(words, matrix)


MASKED = np.ma.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], mask=[[0, 0], [0, 1], [0, 0]])


@pytest.mark.parametrize(
    "source",
    [
        (["a", "b", "c"], MASKED),
        (["a", "b", "c"], list(MASKED)),
        (["a", "b", "c"], tuple(MASKED)),
        (np.array(["a", "b", "c"]), MASKED.astype(np.float32)),
        (np.ma.array(["a", "b", "c"]), MASKED),
        dict(zip("abc", MASKED, strict=True)),
        SimpleNamespace(index_to_key=["a", "b", "c"], vectors=MASKED),
    ],
    ids=["matrix", "list", "tuple", "float32", "masked words", "mapping", "KeyedVectors"],
)
def test_masked_values_are_not_taken_for_numbers(source):
    for use in (WordVectors.of, pbos.load().with_targets, lambda table: pbos.train(table, epochs=1)):
        with pytest.raises(InputError, match="word vectors: some values are masked; fill them in, or leave out these"):
            use(source)


def test_masks_that_mask_nothing_are_ignored():
    whole = np.ma.array(np.eye(2), mask=False)
    for source in ((["a", "b"], whole), (np.ma.array(["a", "b"]), list(whole)), dict(zip("ab", whole, strict=True))):
        assert WordVectors.of(source).vectors.tolist() == [[1, 0], [0, 1]]


def test_masked_words_are_missing():
    with pytest.raises(InputError, match="word 1 is missing"):
        WordVectors(np.ma.array(["a", "b"], mask=[0, 1]), np.eye(2))


def test_a_bad_value_far_down_is_found():
    matrix = np.zeros((70_000, 1), np.float32)
    matrix[66_000], matrix[69_000] = np.nan, -np.inf
    words = [str(row) for row in range(70_000)]
    with pytest.warns(PbosWarning, match=r"dropped 2 words whose vectors .* infinity \(first: '66000', row 66001\)"):
        vectors = WordVectors(words, matrix)
    assert vectors.words == [word for word in words if word not in ("66000", "69000")]


def test_of_equal_words_the_first_with_a_finite_vector_is_kept():
    with pytest.warns(PbosWarning) as caught:
        vectors = WordVectors(["a", "", "a", "b", "a"], [[np.nan], [1], [2], [3], [4]])
    assert same(vectors, WordVectors(["a", "b"], [[2], [3]]))
    assert [str(warning.message) for warning in caught] == [
        "word vectors: dropped 1 word whose vector contains NaN or infinity (first: 'a', row 1)",
        "word vectors: dropped 1 empty word (first: '', row 2)",
        "word vectors: dropped 1 duplicate word (first: 'a', row 5)",
    ]


def test_duplicate_and_empty_words_are_dropped():
    with pytest.warns(PbosWarning) as caught:
        vectors = WordVectors(["a", "", "b", "a", "a", ""], np.arange(6)[:, None])
    assert vectors.words == ["a", "b"]
    assert vectors.vectors.ravel().tolist() == [0, 2]
    assert [str(warning.message) for warning in caught] == [
        "word vectors: dropped 2 empty words (first: '', row 2)",
        "word vectors: dropped 2 duplicate words (first: 'a', row 4)",
    ]
    assert caught[0].filename == __file__  # it points at the caller's line, not into pbos


def test_tensors_of_a_type_that_numpy_lacks(tmp_path):
    header = {"vectors": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]}}
    header["words"] = {"dtype": "U8", "shape": [1], "data_offsets": [4, 5]}
    content = json.dumps(header).encode()
    (tmp_path / "x.safetensors").write_bytes(len(content).to_bytes(8, "little") + content + b"\x80\x3f\x80\x3fa")
    with pytest.raises(FormatError, match="NumPy has no numbers of type 'BF16'; save the tensors as F32 or F16"):
        WordVectors.read(tmp_path / "x.safetensors")


@pytest.mark.parametrize("in_file", [False, True])
def test_dropping_rows_of_a_file_does_not_copy_the_table(tmp_path, in_file):
    words = [f"w{number % 9000}" for number in range(20_000)]  # more than two blocks
    matrix = np.random.default_rng(0).standard_normal((20_000, 3)).astype(np.float32)
    lines = [" ".join([word, *map(repr, row)]) for word, row in zip(words, matrix.tolist(), strict=True)]
    (tmp_path / "table.txt").write_text("\n".join([*lines[:10], "bad nan 1 1", *lines[10:]]))
    with pytest.warns(PbosWarning, match="dropped"):
        table = WordVectors.read(tmp_path / "table.txt", scratch=tmp_path if in_file else None)
    assert table.words == words[:9000]
    np.testing.assert_array_equal(table.vectors, matrix[:9000])
    owner = table.vectors
    while getattr(owner, "base", None) is not None:
        owner = owner.base
    assert isinstance(owner.obj if isinstance(owner, memoryview) else owner, mmap.mmap if in_file else np.ndarray)
    assert in_file or len(owner) > 20_000


def test_of_converts_what_people_have(tmp_path):
    words, matrix = HIGH.words, HIGH.vectors
    HIGH.write(tmp_path / "high.vec")
    assert WordVectors.of(HIGH) is HIGH
    assert same(WordVectors.of(tmp_path / "high.vec"), HIGH)
    assert same(WordVectors.of(str(tmp_path / "high.vec")), HIGH)
    assert same(WordVectors.of((words, matrix)), HIGH)
    assert same(WordVectors.of((np.array(words), matrix.astype(np.float64))), HIGH)
    assert same(WordVectors.of(SimpleNamespace(index_to_key=words, vectors=matrix)), HIGH)  # gensim's KeyedVectors
    assert same(WordVectors.of(dict(zip(words, matrix, strict=True))), HIGH)
    assert same(WordVectors.of(dict(zip(words, matrix.tolist(), strict=True))), HIGH)


def test_of_anything_else_is_an_error():
    with pytest.raises(InputError, match="cannot be made from int; pass a path"):
        WordVectors.of(3)
    with pytest.raises(InputError, match=r"shape \(words, dimensions\), got \(0,\)"):
        WordVectors.of({})
    with pytest.raises(InputError, match="row 2: the vector has 1 values, the first one 2"):
        WordVectors.of({"a": [1, 2], "b": [1]})
    with pytest.raises(FileNotFoundError):
        WordVectors.of("no/such/file.vec")


# Numbers


def parsed(text):
    return parse_number(np.frombuffer(text.encode() + b"\n", np.uint8), 0)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(3.4028234663852886e38)
@example(1e-45)
@example(-0.0)
def test_nine_digits_restore_every_float32(value):
    text = f"{value:.9g}"
    back, end = parsed(text)
    assert end == len(text)
    assert np.float32(back).tobytes() == np.float32(value).tobytes()


NUMBERS = st.from_regex(r"[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@settings(max_examples=500)
@given(NUMBERS | st.floats(allow_nan=False, allow_infinity=False).map(repr))
@example("0." + "0" * 60 + "1")
@example("1" * 39)
@example("340282356779733661637539395458142568447")
@example("0e999999999999999999999")
@example("1e-999999999999999999999")
@example("1" + "0" * 50 + "e-50")
def test_other_numbers_are_within_a_float32_step(text):
    expected = np.float32(np.clip(float(text), -3.4028234663852886e38, 3.4028234663852886e38))
    value, end = parsed(text)
    if end < 0:
        assert abs(float(text)) > 3.4028235e38
        return
    assert end == len(text)
    assert abs(float(np.float32(value)) - float(expected)) <= abs(float(np.spacing(np.minimum(abs(expected), 3e38))))


@pytest.mark.parametrize(
    "text", ["", "-", "+", ".", "e5", "-.e1", "1e", "1e+", "x", "--1", "nan", "inf", "1e39", "-1e999"]
)
def test_not_a_number(text):
    assert parsed(text)[1] == -1


def test_a_number_ends_where_it_ends():
    assert parsed("1.5x") == (1.5, 3)
    assert parsed("1.5.5") == (1.5, 3)
    assert parsed("5 7") == (5, 1)


def lines(text, dims, rows=10):
    """The words and numbers that the kernel finds, how many lines it read, and whether it reached the end."""
    data = text.encode()
    matrix, spans = np.zeros((rows, dims), np.float32), np.zeros((rows, 2), np.int64)
    filled, passed, at = parse_lines(np.frombuffer(data, np.uint8), matrix, spans)
    words = [data[start:end].decode() for start, end in spans[:filled].tolist()]
    return words, matrix[:filled].tolist(), passed, at == len(data)


def test_lines_of_all_kinds():
    assert lines("a 1 2\nb 3 4\n", 2) == (["a", "b"], [[1, 2], [3, 4]], 2, True)
    assert lines("a\t1 \t 2 \r\n\r\n \nb 3 4\t\n", 2) == (["a", "b"], [[1, 2], [3, 4]], 4, True)
    assert lines(". . . 1 2\nroute 66 3 4\n  c  5 6\n", 2)[:2] == ([". . .", "route 66", "c"], [[1, 2], [3, 4], [5, 6]])
    assert lines(" 1 2\n", 2) == ([""], [[1, 2]], 1, True)
    assert lines("1 2\n", 2) == ([], [], 0, False)
    assert lines("a 1 2\n\nb 3\nc 5 6\n", 2) == (["a"], [[1, 2]], 2, False)
    assert lines("a 1 x\n", 2)[3] is False
    assert lines("a 1 2x\n", 2)[3] is False
    assert lines("a 1 nan\n", 2)[3] is False
    assert lines("a 1\r2\n", 2)[3] is False
    assert lines("a 1 2\nb 3 4\n", 2, rows=1) == (["a"], [[1, 2]], 1, False)


# Reading files of other programs


def test_word2vec_text_as_word2vec_c_and_fasttext_write_it(write):
    path = write(b"2 3\n</s> 0.5 -1 2e-3 \nthe 1 2 3 \n")
    vectors = WordVectors.read(path)
    assert vectors.words == ["</s>", "the"]
    assert vectors.vectors.tolist() == np.float32([[0.5, -1, 2e-3], [1, 2, 3]]).tolist()


@pytest.mark.parametrize(
    "content",
    [
        b"2 2\r\na 1 2\r\nb 3 4\r\n",
        b"2 2\ra 1 2\rb 3 4\r",
        b"a 1 2\r\rb 3 4",
        b"2 2\na 1 2\rb 3 4\r\n",
        b"2 2\na\t1\t2\nb\t3\t4",
        b"2\t2 \n\na 1 2\n   \nb 3 4\n\n\n",
        b"\xef\xbb\xbf2 2\na 1 2\nb 3 4\n",
        b"\n2 2\na  1   2\nb  3 4\n",
        b"a 1 2\nb 3 4\n",
        b"a 1 2 \r\nb 3 4 \r\n",
        b"\xef\xbb\xbfa 1 2\n\nb 3 4",
        b"a\t1\t2\nb\t+3\t4.",
        binary((b"a", [1, 2]), (b"b", [3, 4])),
        binary((b"a", [1, 2]), (b"b", [3, 4]), end=b"\n"),
    ],
)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_every_dialect_in_every_compression(write, content, suffix):
    vectors = WordVectors.read(write(COMPRESS[suffix](content)))
    assert vectors.words == ["a", "b"]
    assert vectors.vectors.tolist() == [[1, 2], [3, 4]]


def test_glove_words_with_spaces(write):
    rows = [b"the", b". . .", b"at name@domain.com", b"a", b"route 66", b"to", b"1984"]
    vectors = WordVectors.read(write(b"".join(word + b" 0.1 0.2 0.3\n" for word in rows)))
    assert vectors.words == [word.decode() for word in rows]
    assert vectors.dims == 3


def test_words_that_look_like_numbers_stay_words(write):
    vectors = WordVectors.read(write(b"nan 1 2\ninf 3 4\n1e5 5 6\n0.5 7 8\n"))
    assert vectors.words == ["nan", "inf", "1e5", "0.5"]


def test_a_row_that_looks_like_a_header(write):
    with pytest.warns(PbosWarning, match="there is only one number per word; pass word counts as counts"):
        vectors = WordVectors.read(write(b"1984 5\nthe 3\nof 4\n"))
    assert vectors.words == ["1984", "the", "of"]
    assert vectors.vectors.ravel().tolist() == [5, 3, 4]


@pytest.mark.parametrize("dims", [1, 2, 3, 50])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_binary_whatever_its_bytes(write, dims, end):
    # values whose bytes contain spaces, newlines, tabs and digits, which look like text
    tricky = np.frombuffer(b"  \n>\t12?\n\n\n=1 2>" * dims, "<f4")[: 4 * dims].reshape(4, dims)
    content = binary(*zip([b"a", b"b", b"12", "größer".encode()], tricky.tolist(), strict=True), end=end)
    vectors = WordVectors.read(write(content))
    assert vectors.words == ["a", "b", "12", "größer"]
    assert vectors.vectors.tobytes() == tricky.tobytes()


@pytest.mark.parametrize("block", [16, 17, 64, 1000])
@pytest.mark.parametrize("name", ["high.vec", "high.bin", "high.glove"])
def test_blocks_may_end_anywhere(tmp_path, monkeypatch, block, name):
    vectors = WordVectors([f"w{row}" for row in range(50)], np.random.default_rng(0).normal(size=(50, 3)))
    vectors.write(tmp_path / name)
    layout = text.find_layout(tmp_path / name, (tmp_path / name).read_bytes())
    monkeypatch.setattr(text, "BLOCK", block)
    monkeypatch.setattr(text, "find_layout", lambda *_: layout)  # which needs more than such a small block
    assert same(WordVectors.read(tmp_path / name), vectors)


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_blocks_may_end_inside_of_a_line_end(write, monkeypatch, end):
    rows = [b"w%d %d" % (row, row) for row in range(40)]
    layout = text.Layout(0, 1, 1, None, binary=False)
    monkeypatch.setattr(text, "find_layout", lambda *_: layout)
    for block in range(4, 12):
        monkeypatch.setattr(text, "BLOCK", block)
        with pytest.raises(FormatError, match="line 41: expected a word and 1 numbers"):
            WordVectors.read(write(end.join([*rows, b"bad", b""])))


def test_line_ends_without_end_are_read_block_by_block():
    blocks = list(text.blocks_of_lines("file", [b"\r" * 1000] * 100, 1000))
    assert max(map(len, blocks)) <= 1001
    assert b"".join(blocks) == b"\n" * 99_999 + b"\r\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"a,1,2\nb,3,4\n",
            "commas, semicolons or bars are after numbers or in them; write points in numbers and spaces",
        ),
        (b'"a, b", 1, 2\n"c", 3, 4\nd, 3, 4\n', "commas, semicolons or bars are after numbers or in them"),
        (b"word,x,y\na,1,2\nb,3,4\n", "commas, semicolons or bars"),
        (b"a;1;2\nb;3;4\n", "commas, semicolons or bars"),
        (b"a 1,5 2,5\nb 3,0 -4,5\n", "as tr , . or tr ',;|\"' ' ' does in a shell"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", "is not UTF-8 text, but UTF-16 or binary"),
    ],
)
def test_what_is_no_table_of_vectors_is_named(write, content, message):
    with pytest.raises(FormatError, match=re.escape(message)):
        WordVectors.read(write(content))


def test_the_advice_about_commas_helps(write):
    if not shutil.which("tr"):
        pytest.skip("no tr")
    content = subprocess.run(["tr", ',"', " "], input=b'"a",1,2\nb,3,4\n', capture_output=True, check=True).stdout
    vectors = WordVectors.read(write(content))
    assert (vectors.words, vectors.vectors.tolist()) == (["a", "b"], [[1, 2], [3, 4]])


def test_commas_in_words_are_no_separators(write):
    vectors = WordVectors.read(write(b", 1 2\n1,5 3 4\na,b 5 6\n"))
    assert (vectors.words, vectors.vectors.tolist()) == ([",", "1,5", "a,b"], [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize("name", ["m", "m/model.safetensors"])
def test_a_model_is_not_taken_for_vectors(tmp_path, name):
    pbos.train((["high", "low"], np.eye(2))).save(tmp_path / "m")
    with pytest.raises(
        FormatError, match=r"is a pbos model, not word vectors .*; pass the vectors that it was trained on"
    ):
        WordVectors.read(tmp_path / name)


def test_from_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=lambda: pipe.write_bytes(b"2 2\na 1 2\nb 3 4\n"))
    thread.start()
    assert WordVectors.read(pipe).words == ["a", "b"]
    thread.join()


@pytest.mark.parametrize(
    "name", ["high.vec", "high.bin", "high.glove", "high.npz", "high", "high.vec.gz", "high.bin.xz"]
)
def test_limit(tmp_path, name):
    vectors = WordVectors(["a", "b", "c"], [[1, 2], [3, 4], [5, 6]])
    vectors.write(tmp_path / name)
    assert WordVectors.read(tmp_path / name, limit=2).words == ["a", "b"]
    assert WordVectors.read(tmp_path / name, limit=2).vectors.tolist() == [[1, 2], [3, 4]]
    assert WordVectors.read(tmp_path / name, limit=9).words == ["a", "b", "c"]
    with pytest.raises(InputError, match="limit must be at least 1, got 0"):
        WordVectors.read(tmp_path / name, limit=0)


def test_limit_reads_no_further(write):
    assert WordVectors.read(write(b"9 2\na 1 2\nb 3 4\nnonsense\n"), limit=2).words == ["a", "b"]
    assert WordVectors.read(write(binary((b"a", [1, 2]), (b"b", [3, 4]))[:-1]), limit=1).words == ["a"]
    rows = b"".join(b"%d 0.1 0.2\n" % row for row in range(500_000))
    cut = gzip.compress(rows, 1)[:-1000]
    assert len(WordVectors.read(write(cut), limit=1000)) == 1000


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_a_folder_with_float16_and_other_line_ends(tmp_path, end):
    np.save(tmp_path / "vectors.npy", np.array([[1, 2], [3, 4]], np.float16))
    (tmp_path / "words.txt").write_bytes(f"größer{end}a\u2028b{end}".encode())
    vectors = WordVectors.read(tmp_path)
    assert vectors.words == ["größer", "a\u2028b"]  # which ends no line
    assert vectors.vectors.dtype == np.float32
    assert vectors.vectors.tolist() == [[1, 2], [3, 4]]


def mapped_file(array):
    """The file that an array is mapped from, or None."""
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return None if array is None else Path(array.filename).name


def test_mapped_vectors_stay_mapped(tmp_path):
    HIGH.write(tmp_path / "high")
    vectors = WordVectors.read(tmp_path / "high")
    assert mapped_file(vectors.vectors) == "vectors.npy"
    assert mapped_file(vectors["higher"]) == "vectors.npy"
    assert mapped_file(WordVectors.read(tmp_path / "high", limit=2).vectors) == "vectors.npy"

    array = np.load(tmp_path / "high" / "vectors.npy", mmap_mode="r")
    for source in ((HIGH.words, array), SimpleNamespace(index_to_key=HIGH.words, vectors=array), vectors):
        assert mapped_file(WordVectors.of(source).vectors) == "vectors.npy"
    for matrix in (WordVectors(HIGH.words, array).vectors, WordVectors(HIGH.words[:3], array[:3]).vectors):
        assert np.shares_memory(matrix, array)
        assert not matrix.flags.writeable

    np.save(tmp_path / "high" / "vectors.npy", array.astype(np.float16))
    assert mapped_file(WordVectors.read(tmp_path / "high").vectors) is None  # float32 needs a copy


def test_a_side_file_of_gensim_stays_mapped(tmp_path):
    """A stand-in for KeyedVectors, pickled as gensim does if the matrix is large."""
    state = {"index_to_key": ["a", "b"], "vectors": None, "__numpys": ["vectors"]}
    name = b"cgensim.models.keyedvectors\nKeyedVectors\n)\x81"  # an object without arguments
    (tmp_path / "a.kv").write_bytes(b"\x80\x02" + name + pickle.dumps(state, 2)[2:-1] + b"b.")
    np.save(tmp_path / "a.kv.vectors.npy", np.eye(2, dtype=np.float32))
    vectors = WordVectors.read(tmp_path / "a.kv", limit=1)
    assert vectors.vectors.tolist() == [[1, 0]]
    assert mapped_file(vectors.vectors) == "a.kv.vectors.npy"


def test_an_npz_of_other_float_types(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", words=np.array(["a", "b"]), vectors=np.array([[1, 2], [3, 4]], np.float64))
    assert WordVectors.read(tmp_path / "a.npz").vectors.tolist() == [[1, 2], [3, 4]]
    squeezed = tmp_path / "squeezed"
    squeezed.write_bytes(gzip.compress((tmp_path / "a.npz").read_bytes()))
    assert WordVectors.read(squeezed).words == ["a", "b"]


def test_an_empty_table_keeps_its_dimensions(tmp_path):
    empty = WordVectors([], np.zeros((0, 3)))
    for name in ("empty.vec", "empty.bin", "empty.npz", "empty.safetensors", "empty"):
        empty.write(tmp_path / name)
        assert WordVectors.read(tmp_path / name).vectors.shape == (0, 3)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_safetensors_library_agrees(tmp_path, suffix):
    """It reads what we write, and we read what it writes, in any float type and with other tensors."""
    from safetensors.numpy import load, save

    HIGH.write(tmp_path / f"x.safetensors{suffix}")
    content = (tmp_path / f"x.safetensors{suffix}").read_bytes()
    tensors = load(gzip.decompress(content) if suffix else content)
    assert tensors["words"].tobytes().decode().split("\n") == HIGH.words
    assert tensors["vectors"].tobytes() == HIGH.vectors.tobytes()
    words = np.frombuffer(b"a\nb", np.uint8)
    matrix = np.array([[1, 2], [3, 0.5]])
    for dtype in (np.float16, np.float32, np.float64):
        content = save({"words": words, "other": np.arange(3), "vectors": matrix.astype(dtype)})
        (tmp_path / "y").write_bytes(COMPRESS[suffix](content))
        assert same(WordVectors.read(tmp_path / "y"), WordVectors(["a", "b"], matrix))


def test_safetensors_that_are_not_word_vectors(tmp_path):
    from safetensors.numpy import save

    words, matrix = np.frombuffer(b"a\nb", np.uint8), np.eye(2, dtype=np.float32)
    whole = save({"words": words, "vectors": matrix})
    for content, message in (
        (save({"embedding.weight": matrix}), "expected the tensors `vectors` and `words` .*contains: embedding.weight"),
        (save({"words": words.astype(np.int64), "vectors": matrix}), "`words` has dtype int64 and shape"),
        (save({"words": words, "vectors": np.eye(3, dtype=np.float32)}), "2 words but 3 vectors"),
        (save({"words": words, "vectors": matrix * np.nan}), "all vectors of words contain NaN"),
        (whole.replace(b"F32", b"F99"), "the tensors cannot be read"),
        (whole.replace(b'"F32"', b'"BF16"').replace(b"  ", b" ", 1), "the tensors cannot be read"),
        (whole[:-1], "the tensors cannot be read"),
        (whole[:20], "the tensors cannot be read"),
    ):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(FormatError, match=message):
            WordVectors.read(tmp_path / "x")


# Files with errors


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (b"\n\n \n", "no numbers found"),
        (b"just some text\nand more of it\n", "no numbers found in the first lines"),
        (b"word\n", "no numbers found"),
        ("a 1 2\nb 3 4\n".encode("utf-16"), "is not UTF-8 text, but UTF-16 or binary; convert it to UTF-8"),
        (struct.pack("<ii", 793712314, 12) + bytes(100), "this is a fastText model .*use the .vec file"),
        (pickle.dumps({"a": [1]}), "this is a pickle .*save_word2vec_format"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "this is an HDF5 file"),
        (b"\x93NUMPY\x01\x00", "this is a matrix without words"),
        (b"3 0\na 1 2\nb 1 2\n", "the header announces vectors of 0 numbers; expected 1 to 1000000"),
        (b"3 99999999999999999999\na 1 2\nb 1 2\n", "the header announces vectors of 99999999999999999999 numbers"),
        (b"3 2\n", "the header announces 3 rows, but none follow"),
        (b"12 2\n" + b"a 1 2 3\n" * 12, "the header announces vectors of 2 numbers, but the rows have 3"),
        (b"3 3\na 1 2 3\nb 1 2\nc 1 2 3\n", "line 3: expected a word and 3 numbers, found"),
        (b"3 3\n\r\na 1 2\n", "line 3: expected a word and 3 numbers, found"),
        (b"a 1 2 3\nb 1 2\n", "line 2: expected a word and 3 numbers, found"),
        (b"a 1 2 3\nb 1 2 3\nc\n", "line 3: expected a word and 3 numbers, found"),
        (b"a 1 2 3\n 1 2\nb 1 2 3\n", "line 2: expected a word and 3 numbers, found"),
        (b"1 900000\na 1 2\n", "line 2: expected a word and 900000 numbers, found"),
        (b"2 2\na 1 2\nb 1 x\n", "line 3: expected a word and 2 numbers, but 'x' is not a number"),
        (b"2 2\na 1 2,5\nb 1 2\n", "line 2: expected a word and 2 numbers, but '2,5' is not a number"),
        (
            b"a 1 2 3\nb 1 2 \xff\n",
            "line 2: expected a word and 3 numbers, but '\ufffd' is not a number",
        ),
        (b"a 1 2\nb 1\r2\nc 1 2\n", "line 2: expected a word and 2 numbers, found 2 fields"),
        (b"2 2\na nan 2\nb 1 nano\n", "line 3: expected a word and 2 numbers, but 'nano' is not a number"),
        (b"a 1 2\nb nan nan\nc nan\n", "line 3: expected a word and 2 numbers, found 2 fields"),
        (b"a 1 2\nnan 2\nb 1 2\n", "line 2: expected a word and 2 numbers, found 2 fields"),
        (b"2 2\na 1 nan\nx y 1e39 2\n", "all vectors of words contain NaN or infinity"),
        (binary((b"a", [1, 2]), (b"b", [3, 4]))[:-1], "the file ends in word 2 of the 2 its header announces"),
        (binary((b"a", [1, 2]), header=b"99999999999 2\n"), "the file ends in word 2 of the 99999999999"),
        (binary((b"a", [1, 2]), header=b"5 500000\n"), "the file ends in word 1 of the 5 its"),
        (binary((b"a", [np.nan, 2]), (b"b", [3, np.inf])), "all vectors of words contain NaN or infinity"),
        (b"PK\x03\x04" + bytes(50), "the archive is damaged"),
    ],
)
def test_errors_name_the_place(write, content, message):
    path = write(content)
    with pytest.raises(FormatError, match=message) as error:
        WordVectors.read(path)
    assert str(error.value).startswith(str(path))


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        WordVectors.read(tmp_path / "none.vec")


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESS if suffix])
@pytest.mark.parametrize("left", [8, 0.5, -1])
def test_a_compressed_file_cut_short(write, suffix, left):
    rows = np.random.default_rng(0).normal(size=(2000, 5))
    data = COMPRESS[suffix](b"".join(b"w%d %f %f %f %f %f\n" % (number, *row) for number, row in enumerate(rows)))
    cut = data[: left if isinstance(left, int) else int(left * len(data))]
    with pytest.raises(FormatError, match="the compressed data is damaged or cut short"):
        WordVectors.read(write(cut))


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESS if suffix])
def test_a_compressed_file_with_a_wrong_byte(tmp_path, suffix):
    path = tmp_path / f"random.vec{suffix}"
    WordVectors([f"w{row}" for row in range(500)], np.random.default_rng(0).normal(size=(500, 5))).write(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError):
        WordVectors.read(path)


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            npz(words=np.array(["a"], object), vectors=np.eye(1)),
            r"contains pickled objects; save the words as np.array\(words, d",
        ),
        (npz(words=np.array([1]), vectors=np.eye(1)), "`words` has dtype int64"),
        (npz(words=np.array([["a"]]), vectors=np.eye(1)), r"shape \(1, 1\); save it as"),
        (
            npz(vectors=np.eye(1), names=np.array(["a"])),
            "expected the arrays `words` and `vectors` .* contains: vectors, names",
        ),
        (npz(words=np.array(["a"]), vectors=np.eye(2)), "1 words but 2 vectors"),
        (npz(words=np.array(["a"]), vectors=np.zeros(2)), r"got \(2,\)"),
        (npz(words=np.array(["a", "b"]), vectors=np.eye(2) * np.nan), "all vectors of words contain NaN"),
        (npz(words=np.array(["a"]), vectors=np.eye(1))[:-30], "the archive is damaged"),
    ],
)
def test_errors_in_an_npz(write, content, message):
    with pytest.raises(FormatError, match=message):
        WordVectors.read(write(content))


def test_errors_in_a_folder(tmp_path):
    with pytest.raises(FormatError, match=r"words.txt is missing; a folder of vectors contains words.txt and vect"):
        WordVectors.read(tmp_path)
    (tmp_path / "words.txt").write_text("a\nb\nc\n")
    with pytest.raises(FormatError, match=r"vectors.npy is missing"):
        WordVectors.read(tmp_path)
    (tmp_path / "vectors.npy").write_bytes(b"nonsense")
    with pytest.raises(FormatError, match="not a NumPy array"):
        WordVectors.read(tmp_path)
    np.save(tmp_path / "vectors.npy", np.array([None, {}]), allow_pickle=True)
    with pytest.raises(FormatError, match="not a NumPy array"):
        WordVectors.read(tmp_path)
    np.save(tmp_path / "vectors.npy", np.eye(2))
    with pytest.raises(FormatError, match=r"3 words in words.txt, but 2 rows in vectors.npy"):
        WordVectors.read(tmp_path)
    np.save(tmp_path / "vectors.npy", np.array([[np.nan], [np.inf], [1e39]]))
    with pytest.raises(FormatError, match="all vectors of words contain NaN or infinity"):
        WordVectors.read(tmp_path)


# Files that are read with a warning


ODD = np.array(["nan", "NaN", "-nan", "inf", "INF", "-inf", "+Infinity", "1e39", "-3.5E38", "9" * 60])


def odd_table(generator):
    """Words, the texts of their numbers, of which some are not finite, and what NumPy makes of them."""
    texts = generator.normal(size=(300, 4)).astype(np.float32).astype("U70")
    odd = generator.random(texts.shape) < 0.1
    texts[odd] = generator.choice(ODD, odd.sum())
    with np.errstate(over="ignore"):
        matrix = texts.astype(np.float64).astype(np.float32)
    return [f"word w{row}" if row % 5 else f"w{row}" for row in range(300)], texts, matrix


def write_like(form, path, words, texts, matrix):
    """Write a table with a writer that does not mind NaN; return what to read."""
    lines = "".join(f"{word} {' '.join(row)}\n" for word, row in zip(words, texts, strict=True)).encode()
    if form in ("glove", "word2vec"):
        path.write_bytes((b"300 4\n" if form == "word2vec" else b"") + lines)
    elif form == "binary":
        path.write_bytes(binary(*((word.encode(), row) for word, row in zip(words, matrix, strict=True))))
    elif form == "npz":
        path.write_bytes(npz(words=np.array(words), vectors=texts.astype(np.float64)))
    elif form == "safetensors":
        save = pytest.importorskip("safetensors.numpy").save
        path.write_bytes(save({"words": np.frombuffer("\n".join(words).encode(), np.uint8), "vectors": matrix}))
    elif form == "folder":
        path.mkdir()
        (path / "words.txt").write_text("\n".join(words))
        np.save(path / "vectors.npy", matrix)
    elif form == "gensim":
        keyed = pytest.importorskip("gensim").models.KeyedVectors(4)
        keyed.add_vectors(words, matrix)
        keyed.save(str(path))
    elif form == "KeyedVectors":
        return SimpleNamespace(index_to_key=words, vectors=matrix)
    elif form == "mapping":
        return dict(zip(words, texts.astype(np.float64), strict=True))
    return path


@pytest.mark.parametrize(
    "form",
    ["glove", "word2vec", "binary", "npz", "safetensors", "folder", "gensim", "KeyedVectors", "mapping"],
)
def test_words_whose_vectors_are_not_finite_are_dropped(tmp_path, monkeypatch, form):
    monkeypatch.setattr("pbos.tables.text.BLOCK", 5000)  # bytes: several blocks
    words, texts, matrix = odd_table(np.random.default_rng(3))
    words = [word.replace(" ", "_") for word in words] if form == "binary" else words
    finite = np.isfinite(matrix).all(axis=1)
    first = int(np.argmin(finite))
    with pytest.warns(PbosWarning) as caught:
        vectors = WordVectors.of(write_like(form, tmp_path / "table", words, texts, matrix))
    expected = f"dropped {(~finite).sum()} words whose vectors contain NaN or infinity"
    assert len(caught) == 1
    assert str(caught[0].message).endswith(f": {expected} (first: {words[first]!r}, row {first + 1})")
    assert vectors.words == [word for word, good in zip(words, finite, strict=True) if good]
    assert same(vectors, WordVectors(vectors.words, matrix[finite]))


def test_rows_that_are_not_finite_count_for_the_limit(write):
    path = write(b"4 1\na 1\nb nan\nc inf\nd 4\n")
    with pytest.warns(PbosWarning, match=r"dropped 1 word whose vector contains NaN or infinity \(first: 'b', row 2\)"):
        assert WordVectors.read(path, limit=2).words == ["a"]
    with pytest.warns(PbosWarning, match="dropped 2 words"):
        assert WordVectors.read(path).words == ["a", "d"]


def test_an_odd_row_with_an_empty_or_a_spaced_word(write):
    with pytest.warns(PbosWarning, match=r"dropped 3 words .* \(first: '', row 2\)"):
        vectors = WordVectors.read(write(b"a 1 2\n nan 2\r\n\n. . nan 1e99 \n\tx\tinf\t1\nb 3 4\n"))
    assert same(vectors, WordVectors(["a", "b"], [[1, 2], [3, 4]]))


def test_a_mapped_matrix_stays_mapped_unless_rows_are_dropped(tmp_path):
    np.save(tmp_path / "vectors.npy", np.eye(3, dtype=np.float32))
    matrix = np.load(tmp_path / "vectors.npy", mmap_mode="r+")
    assert np.shares_memory(WordVectors(["a", "b", "c"], matrix).vectors, matrix)
    matrix[1, 1] = np.inf
    with pytest.warns(PbosWarning, match="dropped 1 word whose vector contains NaN or infinity"):
        assert WordVectors(["a", "b", "c"], matrix).words == ["a", "c"]


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (b"3 1\na 1\n\na 2\na 3\n", ["a"], "dropped 2 duplicate words (first: 'a', row 2)"),
        (
            b"a 1 2\nb 1 2\na 3 4\n",
            ["a", "b"],
            "dropped 1 duplicate word (first: 'a', row 3)",
        ),
        (b"2 2\na 1 2\n 3 4\n", ["a"], "dropped 1 empty word (first: '', row 2)"),
        (
            b"2 2\na\xff 1 2\nb 3 4\n",
            ["a\ufffd", "b"],
            "1 word contains U+FFFD, which replaces invalid UTF-8 (first: 'a�')",
        ),
        (b"3 2\na 1 2\nb 3 4\n", ["a", "b"], "the header announces 3 rows, but there are 2; all were read"),
        (b"1 2\na 1 2\nb 3 4\n", ["a", "b"], "the header announces 1 rows, but there are 2; all were read"),
        (
            b"99999999999999999999 2\na 1 2\n",
            ["a"],
            "the header announces 99999999999999999999 rows, but there are 1; all were read",
        ),
        (
            binary((b"a", [1, 2]), (b"b", [1, 2]), (b"a", [3, 4])),
            ["a", "b"],
            "dropped 1 duplicate word (first: 'a', row 3)",
        ),
        (binary((b"a", [1, 2]), (b"", [3, 4])), ["a"], "dropped 1 empty word (first: '', row 2)"),
        (
            binary((b"a", [1, 2]), (b"\xffb\xfe", [3, 4])),
            ["a", "\ufffdb\ufffd"],
            "1 word contains U+FFFD, which replaces invalid UTF-8 (first: '�b�')",
        ),
        (
            binary((b"a", [1, 2]), (b"b", [3, 4]), header=b"1 2\n"),
            ["a"],
            "the file continues after the 1 words its header announces; the rest was not read",
        ),
        (
            npz(words=np.array(["a", "b", "a"]), vectors=np.zeros((3, 1))),
            ["a", "b"],
            "dropped 1 duplicate word (first: 'a', row 3)",
        ),
    ],
)
def test_odd_rows_give_one_warning(write, content, words, message):
    path = write(content)
    with pytest.warns(PbosWarning) as caught:
        vectors = WordVectors.read(path)
    assert vectors.words == words
    assert [str(warning.message) for warning in caught] == [f"{path}: {message}"]
    assert caught[0].filename == __file__


def test_odd_words_in_a_folder(tmp_path):
    np.save(tmp_path / "vectors.npy", np.arange(6)[:, None])
    (tmp_path / "words.txt").write_bytes(b"a\n\nb\nb\n\xff\n\xffc\n")
    with pytest.warns(PbosWarning) as caught:
        vectors = WordVectors.read(tmp_path)
    assert vectors.words == ["a", "b", "\ufffd", "\ufffdc"]
    assert vectors.vectors.ravel().tolist() == [0, 2, 4, 5]
    assert [str(warning.message).removeprefix(f"{tmp_path}: ") for warning in caught] == [
        "dropped 1 empty word (first: '', row 2)",
        "dropped 1 duplicate word (first: 'b', row 4)",
        "2 words contain U+FFFD, which replaces invalid UTF-8 (first: '�')",
    ]


# Writing

FORMATS = ["word2vec", "word2vec-binary", "glove", "safetensors"]
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), min_size=1, max_size=6)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw, words=WORDS):
    words = draw(st.lists(words, min_size=1, max_size=5, unique=True))
    dims = draw(st.integers(2, 4))
    rows = draw(st.lists(st.lists(FLOATS, min_size=dims, max_size=dims), min_size=len(words), max_size=len(words)))
    return WordVectors(words, np.array(rows, np.float32))


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=25)
@given(vectors=tables())
def test_round_trip(tmp_path_factory, format, suffix, vectors):
    path = tmp_path_factory.getbasetemp() / f"round-trip{suffix}"
    path.unlink(missing_ok=True)
    try:
        vectors.write(path, format=format)
    except InputError as error:
        assert "cannot be written" in str(error)
        assert not path.exists()
        assume(False)
    # without a header, a table this small does not show whether a number belongs to the word or to the vector
    assume(format != "glove" or not any(set(word) & set("0123456789") for word in vectors.words))
    assert same(WordVectors.read(path), vectors)


@pytest.mark.parametrize("name", ["folder", "archive.npz"])
@settings(max_examples=25)
@given(vectors=tables())
def test_round_trip_of_folders_and_archives(tmp_path_factory, name, vectors):
    path = tmp_path_factory.getbasetemp() / name
    try:
        vectors.write(path)
    except InputError as error:
        assert "cannot be written" in str(error)
        assume(False)
    assert same(WordVectors.read(path), vectors)


def test_the_bytes_written(tmp_path):
    vectors = WordVectors(["a", "größer"], [[1, 0.1], [-0.0, 1e-30]])
    literal = {
        "x.vec": "2 2\na 1 0.100000001\ngrößer -0 1e-30\n".encode(),
        "x.glove": "a 1 0.100000001\ngrößer -0 1e-30\n".encode(),
        "x.bin": binary((b"a", [1, 0.1]), ("größer".encode(), [-0.0, 1e-30]), end=b"\n"),
    }
    for name, content in literal.items():
        vectors.write(tmp_path / name)
        assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("x.vec", "word2vec"),
        ("x.txt", "word2vec"),
        ("x.y.bin", "word2vec-binary"),
        ("x.glove", "glove"),
        ("x.npz", "npz"),
        ("x.safetensors", "safetensors"),
    ],
)
def test_the_name_chooses_the_format(tmp_path, name, format):
    vectors = WordVectors(["a"], [[1, 2]])
    vectors.write(tmp_path / name)
    vectors.write(tmp_path / "explicit", format=format)
    assert (tmp_path / name).read_bytes() == (tmp_path / "explicit").read_bytes()


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESS if suffix])
def test_an_additional_suffix_compresses(tmp_path, suffix):
    HIGH.write(tmp_path / f"x.vec{suffix}")
    assert not (tmp_path / f"x.vec{suffix}").read_bytes().startswith(b"5 2\n")
    assert same(WordVectors.read(tmp_path / f"x.vec{suffix}"), HIGH)


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("x.csv", None, r"unknown suffix .csv; use .vec, .txt, .bin, .glove, .npz, .kv, .safetensors, none"),
        ("x.csv.gz", None, "unknown suffix .csv"),
        ("x", "parquet", "unknown format 'parquet'; choose one of: word2vec, word2vec-binary, glove, npz, gensim, "),
        ("x.npz.gz", None, "npz cannot be written compressed; leave out .gz"),
        ("x.zst", None, "folder cannot be written compressed; leave out .zst"),
        ("x.xz", "npz", "npz cannot be written compressed"),
    ],
)
def test_a_name_without_a_format(tmp_path, name, format, message):
    with pytest.raises(InputError, match=message):
        HIGH.write(tmp_path / name, format=format)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("word", "not_in"),
    [
        ("new york", {"word2vec-binary"}),
        ("a\nb", {"word2vec", "word2vec-binary", "glove", "folder", "safetensors"}),
        (" a", {"word2vec", "word2vec-binary", "glove", "folder"}),
        ("a\r", {"word2vec", "word2vec-binary", "glove", "folder"}),
        ("a\rb", {"word2vec", "word2vec-binary", "glove", "folder"}),
        ("\ufeffa", {"word2vec", "word2vec-binary", "glove", "folder"}),
        ("a\0", {"npz"}),
        ("\ud800", {"word2vec", "word2vec-binary", "glove", "folder", "npz", "gensim", "safetensors"}),
        ("a\tb", set()),
        ("\u00a0", set()),
        ("a\u2028b", set()),
    ],
)
@pytest.mark.parametrize("format", formats.FORMATS)
def test_words_that_a_format_would_change(tmp_path, format, word, not_in):
    if format == "gensim":
        pytest.importorskip("gensim")
    vectors = WordVectors(["fine", word], [[1, 2], [3, 4]])
    if format in not_in:
        with pytest.raises(InputError, match=f"cannot be written as {format}") as error:
            vectors.write(tmp_path / "x", format=format)
        assert ascii(word) in str(error.value)
        assert not list(tmp_path.iterdir())
    else:
        vectors.write(tmp_path / "x", format=format)
        assert same(WordVectors.read(tmp_path / "x"), vectors)


def test_only_a_folder_of_vectors_is_replaced(tmp_path):
    folder = tmp_path / "vectors.d"
    folder.mkdir()
    HIGH.write(folder)  # an empty folder
    other = WordVectors(["a"], [[1]])
    mapped = WordVectors.read(folder)
    other.write(folder)
    assert same(WordVectors.read(folder), other)
    assert same(mapped, HIGH)  # what was mapped stays as it was
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="the folder contains other files than vectors"):
        HIGH.write(folder)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="this is a file, so no folder can be written here"):
        HIGH.write(tmp_path / "file")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "vectors.d"]
    assert sorted(entry.name for entry in folder.iterdir()) == ["notes.txt", "vectors.npy", "words.txt"]


@pytest.mark.parametrize("name", ["x.vec", "x.npz", "x"])
def test_a_failed_write_leaves_the_old_one(tmp_path, monkeypatch, name):
    HIGH.write(tmp_path / name)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        WordVectors(["a"], [[1]]).write(tmp_path / name)
    assert same(WordVectors.read(tmp_path / name), HIGH)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


# All of it


@pytest.mark.parametrize("name", ["high.vec", "high.glove.gz"])
def test_progress_is_counted_in_bytes(tmp_path, monkeypatch, name):
    steps = []

    @contextmanager
    def record(label, total, show):
        steps.extend([label, total, show])
        yield steps.append

    HIGH.write(tmp_path / name)
    monkeypatch.setattr(word_vectors, "progress_bar", record)
    WordVectors.read(tmp_path / name, progress=True)
    size = (tmp_path / name).stat().st_size
    if name == "high.vec":
        assert steps == ["reading high.vec", size, True, size - len("5 2\n")]
    else:  # the size is not known
        assert steps[:3] == ["reading high.glove.gz", None, True]


def test_reading_without_the_compiler(tmp_path):
    HIGH.write(tmp_path / "high.vec")
    WordVectors(["a", "b"], [[1, 2], [3e38, 4e-45]]).write(tmp_path / "ab.bin")
    code = """
import sys
from pbos.kernels.numbers import parse_lines
from pbos.tables.word_vectors import WordVectors
assert not hasattr(parse_lines, "py_func")
for path in sys.argv[1:]:
    vectors = WordVectors.read(path)
    print(vectors.words, vectors.vectors.tolist())
"""
    arguments = [sys.executable, "-W", "error", "-c", code, tmp_path / "high.vec", tmp_path / "ab.bin"]
    source = Path(pbos.__file__).parents[1]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(source), "PYTHONIOENCODING": "utf-8"}
    output = subprocess.run(
        arguments, env=environment, capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout
    assert output.splitlines() == [
        f"{vectors.words} {vectors.vectors.tolist()}"
        for vectors in (HIGH, WordVectors(["a", "b"], [[1, 2], [3e38, 4e-45]]))
    ]


def test_the_names_of_the_formats_need_no_numba():
    code = "import sys; import pbos.tables.formats; print({'numpy', 'numba'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(Path(pbos.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True).stdout.strip() == b"set()"


@settings(max_examples=300)
@given(
    st.binary(max_size=80) | st.text("a1.-e \t\r\n\0é", max_size=60).map(str.encode),
    st.sampled_from([b"", b"2 2\n", b"3 1\n"]),
)
def test_any_bytes_give_vectors_or_a_clear_error(tmp_path_factory, content, header):
    path = tmp_path_factory.getbasetemp() / "any-bytes"
    path.write_bytes(header + content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PbosWarning)
        try:
            vectors = WordVectors.read(path)
        except MissingExtraError:  # of zst, if it is not installed
            pass
        except FormatError as error:
            assert str(error).startswith(str(path))
            assert "\n" not in str(error)
        else:
            assert np.isfinite(vectors.vectors).all()


@pytest.mark.parametrize("name", ["googlenews-en-8k", "glove840b-en-10k"])
def test_real_vectors_in_every_format(shared_data, tmp_path, name):
    vectors = WordVectors.read(shared_data / "vectors" / name, limit=2000)
    assert vectors.vectors.shape == (2000, 300)
    for target in ("x.vec", "x.bin", "x.glove", "x.npz", "x", "x.vec.gz", "x.kv", "x.safetensors"):
        vectors.write(tmp_path / target)
        assert same(WordVectors.read(tmp_path / target), vectors)


def test_all_real_folders_are_read(shared_data):
    for folder in sorted((shared_data / "vectors").iterdir()):
        vectors = WordVectors.read(folder, limit=3000)
        assert vectors.dims in (64, 300)
        assert len(vectors) == 3000
