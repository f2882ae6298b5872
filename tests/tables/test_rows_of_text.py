"""word2vec, as text and binary, fastText and GloVe, as other programs write them, and broken ones."""

import gzip
import pickle
import re
import shutil
import subprocess

import numpy as np
import pytest
from table_files import COMPRESS, binary, same

from pbos.errors import FormatError, PbosWarning
from pbos.tables import text
from pbos.tables.word_vectors import WordVectors


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


def test_word_counts_are_read_as_vectors_with_a_warning(write):
    with pytest.warns(PbosWarning, match="there is only one number per word; pass word counts as counts"):
        vectors = WordVectors.read(write(b"the 5\n1984 3\nof 4\n"))
    assert vectors.words == ["the", "1984", "of"]
    assert vectors.vectors.ravel().tolist() == [5, 3, 4]
    with pytest.raises(FormatError, match="line 2: expected a word and 5 numbers, found 2 fields"):
        WordVectors.read(write(b"1984 5\nthe 3\nof 4\n"))  # the first row looks like a header


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
            "numbers have commas, semicolons or bars in or between them; use decimal points and spaces",
        ),
        (b'"a, b", 1, 2\n"c", 3, 4\nd, 3, 4\n', "numbers have commas, semicolons or bars in or between them"),
        (b"word,x,y\na,1,2\nb,3,4\n", "commas, semicolons or bars"),
        (b"a;1;2\nb;3;4\n", "commas, semicolons or bars"),
        (b"a 1,5 2,5\nb 3,0 -4,5\n", "with tr , . or tr ',;|\"' ' ' in a shell"),
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (b"\n\n \n", "no numbers found"),
        (b"just some text\nand more of it\n", "no numbers found in the first lines"),
        (b"word\n", "no numbers found"),
        ("a 1 2\nb 3 4\n".encode("utf-16"), "is not UTF-8 text, but UTF-16 or binary; convert it to UTF-8"),
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
