"""Files of word pairs with scores: separators, headers, further columns, encodings, and what is wrong."""

import gzip

import pytest

from pbos.errors import FormatError
from pbos.evaluation import datasets

PAIRS = [("cat", "Dog", 7.5), ("new york", "city", 8.0), ("naïve", "käse", 0.25)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("header", ["", "word 1,word 2,score"])
@pytest.mark.parametrize("separator", ["\t", ","])
def test_your_own_pairs(tmp_path, end, header, separator):
    lines = [header.replace(",", separator)] * bool(header) + [separator.join(map(str, pair)) for pair in PAIRS]
    (tmp_path / "pairs").write_bytes(end.join(lines).encode())
    assert datasets.read_pairs(tmp_path / "pairs") == PAIRS


def test_pairs_separated_by_spaces(tmp_path):
    (tmp_path / "pairs").write_text("cat  dog \t 7.5\n\nnew_york city 8\n")
    assert datasets.read_pairs(tmp_path / "pairs") == [("cat", "dog", 7.5), ("new_york", "city", 8.0)]


def test_pairs_with_quotes_bom_and_compression(tmp_path):
    data = b'\xef\xbb\xbfcat,"dog, the",7.5\nfire,ice,1\n'
    (tmp_path / "pairs").write_bytes(gzip.compress(data))
    assert datasets.read_pairs(tmp_path / "pairs") == [("cat", "dog, the", 7.5), ("fire", "ice", 1.0)]


def test_further_columns(tmp_path):
    """As in the published SimLex-999 (a tag before the score) and RareWord (the judges after it)."""
    (tmp_path / "pairs").write_text("word1\tword2\tPOS\tSimLex999\tconc\nold\tnew\tA\t1.58\t2\nbe\tgo\tV\t2\t3\n")
    assert datasets.read_pairs(tmp_path / "pairs") == [("old", "new", 1.58), ("be", "go", 2.0)]
    (tmp_path / "pairs").write_text("squish\tsquirt\t5.88\t7\t4\t\nfit\tfat\t1\t1\t1\t\n")
    assert datasets.read_pairs(tmp_path / "pairs") == [("squish", "squirt", 5.88), ("fit", "fat", 1.0)]


@pytest.mark.parametrize(("word", "encoding"), [("käse", "cp1252"), ("кошка", "cp1251")])
@pytest.mark.parametrize("utf8", [True, False])
def test_encodings(tmp_path, word, encoding, utf8):
    (tmp_path / "pairs").write_bytes(f"{word}\tx\t1\ny\tz\t2\n".encode("utf-8" if utf8 else encoding))
    found = datasets.read_pairs(tmp_path / "pairs", encoding=encoding)
    assert found[0] == (word, "x", 1.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cat\tdog\t7\ncat\tdog\n", "pairs, line 2: expected two words and a score, got: 'cat | dog'"),
        (b"cat\tdog\t7\r\rcat\t\t3\r", "line 3: expected two words and a score"),
        (b"cat\tdog\t7\ncat\tfish\tmuch\n", "line 2: .*much"),
        (b"cat\tdog\tnan\ncat\tfish\t2\n", "line 1: .*nan"),
        (b"cat dog\n", "line 1: expected two words and a score"),
        (b"cat\tdog\t7\nk\xe4se\tdog\t7\n", "line 2: the byte 0xe4 is not UTF-8; convert the file to UTF-8"),
        (b"\n\n", "the file is empty"),
    ],
)
def test_bad_pairs(tmp_path, content, message):
    (tmp_path / "pairs").write_bytes(content)
    with pytest.raises(FormatError, match=message.replace("|", r"\|")):
        datasets.read_pairs(tmp_path / "pairs")
