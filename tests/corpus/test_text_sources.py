"""Which words and lines are read from text of all kinds, against regular expressions and a plain loop."""

import dataclasses
import gzip
import itertools
import os
import re
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from texts import PLAIN, WINDOW, as_dictionaries, count, generated_text, run_by_hand

from pbos.corpus import sources
from pbos.corpus.cooccurrences import Counting
from pbos.errors import FormatError, InputError, PbosWarning
from pbos.jobs.pools import Threads
from pbos.words.tokens import words_of

pytestmark = pytest.mark.core


def blocks_of(text, folder):
    """The text of each shard."""
    return [sources.text_of(shard) for shard in sources.source_of(text).shards(folder / "unpacked", Threads(1))]


# Words ----------------------------------------------------------------------------------------------------------------


def tokens(text, cut="words", lowercase=True):
    words, ids, line_ends = words_of(text, cut, lowercase)
    lines = np.split(np.array(words, object)[ids], line_ends)
    return [list(line) for line in lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat -- sat.\nOn mats!", [["the", "cat", "sat"], ["on", "mats"], []]),
        (
            "don't o’clock 'quoted' rock-'n'-roll x- -y",
            [["don't", "o’clock", "quoted", "rock", "n", "roll", "x", "y"], []],
        ),
        ("a_b __c__ co-op- 3rd 1,000", [["a_b", "c", "co-op", "3rd", "1", "000"], []]),
        ("Straße ÉCOLE cafe\u0301 İstanbul", [["straße", "école", "café", "istanbul"], []]),
        ("ہندی हिन्दी می\u200cخواهم", [["ہندی", "हिन्दी", "می\u200cخواهم"], []]),
        ("東京ひらカタカナ", [["東", "京", "ひ", "ら", "カタカナ"], []]),
        ("\U0001d400\U0001d401 \U00020000\U00020001", [["\U0001d400\U0001d401", "\U00020000", "\U00020001"], []]),
        ("one\r\ntwo\rthree", [["one"], [], ["two"], ["three"], []]),
        ("x" * 100 + " " + "y" * 101, [["x" * 100], []]),
        ("", [[], []]),
    ],
)
def test_words_of_text(text, expected):
    assert tokens(text) == expected


def test_words_agree_with_a_regular_expression():
    text = "".join(np.random.default_rng(0).choice(list("ab'-1 é\n.中"), 20_000))
    expected = [re.findall(r"中|(?:[ab1é]+(?:['-](?=[ab1é]))?)+", line) for line in text.split("\n")]
    assert tokens(text)[: len(expected)] == expected


def test_given_tokens_and_spaces():
    assert tokens("Of: it's A.B.\u3000C\n", "spaces", lowercase=False) == [["Of:", "it's", "A.B.", "C"], [], []]
    assert tokens("New York\x1fis\n", "tokens") == [["new york", "is"], [], []]


def test_many_distinct_words_are_numbered():
    words = [f"{number:x}z" for number in range(200_000)]
    found = words_of(" ".join(words + words[::-1]), "words", True)
    assert found.words == sorted(words)
    assert np.array(found.words)[found.ids].tolist() == words + words[::-1]


# Sources --------------------------------------------------------------------------------------------------------------


def test_all_kinds_of_text_are_counted_alike(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    text = generated_text(200)
    lines = text.split("\n")[:-1]
    (tmp_path / "a1.txt").write_text("".join(f"{line}\n" for line in lines[:50]))
    (tmp_path / "a2.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + "\n".join(lines[50:]).encode()))
    pq.write_table(pa.table({"text": lines, "other": range(len(lines))}), tmp_path / "t.parquet")
    stdin = (tmp_path / "stdin.txt").open("w+b")  # stands for a pipe
    stdin.write(text.encode())
    stdin.seek(0)
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stdin}))
    kinds = [
        str(tmp_path / "a*"),
        [tmp_path / "a1.txt", tmp_path / "a2.txt.gz"],
        tmp_path / "t.parquet",
        lines,
        (line for line in lines),
        pa.chunked_array([lines]),
        np.array(lines),
        "-",
    ]
    expected = run_by_hand(text)
    for at, kind in enumerate(kinds):
        assert as_dictionaries(count(kind, tmp_path / str(at))) == expected
    as_tokens = count(
        [line.split() for line in lines], tmp_path / "tokens", Counting("tokens", window=WINDOW, thin=1e9)
    )
    assert as_dictionaries(as_tokens) == expected
    stdin.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (5, "text must be files, sentences or lists of tokens, got int"),
        (b"abc", "text must be files, sentences or lists of tokens, got bytes"),
        ({"a": 1}, "text must be files, sentences or lists of tokens, got dict"),
        (np.zeros((2, 2)), "text must be files, sentences or lists of tokens, got ndarray"),
        ([], "there is no text"),
        ([None], "there is no text"),
        (["one", 5], "item 1 is int, not a str"),
        ([b"one"], "item 0 is bytes, not a list of tokens"),
        ([["one"], "two"], "item 1 is str, not a list of tokens"),
        ([["one", 2]], "item 1 is int, not a str"),
        ([__file__], "is a file, not a sentence; pass files as a list of Path"),
        ("missing-*.txt", "missing-\\*.txt: no such file"),
    ],
)
def test_bad_sources(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        blocks_of(text, tmp_path)


def test_a_tab_in_a_token_is_a_space(tmp_path):
    settings = dataclasses.replace(PLAIN, cut="tokens")
    assert count([["one\ttwo", "three"]], tmp_path, settings).words == ["one two", "three"]


def test_missing_sentences_are_left_out(tmp_path):
    column = np.array(["one\r\ntwo", None, float("nan"), "three"], object)
    assert blocks_of(column, tmp_path) == [b"one  two\nthree\n"]


@pytest.mark.parametrize("kind", ["lines", "spaces", "letters", "tokens"])
@pytest.mark.parametrize("near", [30, 1 << 16])
def test_shards_are_cut_between_words(tmp_path, monkeypatch, kind, near):
    monkeypatch.setattr(sources, "BLOCK", 100)
    monkeypatch.setattr(sources, "NEAR", near)
    words = [f"é{number:03}" for number in range(300)]
    given = {
        "lines": words,
        "spaces": [" ".join(words)],
        "letters": ["".join(words)],
        "tokens": [words],
    }[kind]
    blocks = blocks_of(given, tmp_path)
    assert 10 < len(blocks) <= 20
    assert max(map(len, blocks)) <= 100 + near
    text = [block.decode() for block in blocks]  # no character is cut
    if kind != "letters":
        cut = {"tokens": "tokens"}.get(kind, "spaces")
        assert [word for block in text for line in tokens(block, cut) for word in line] == words


def test_files_are_read_once(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("one\n")
    os.mkfifo(tmp_path / "pipe")
    names = [tmp_path / "a.txt", tmp_path / "*.txt", tmp_path / "**"]
    with threading_writer(tmp_path / "pipe", b"x" * 50_000 + b"\n"):
        assert blocks_of(names, tmp_path) == [b"one\n\n" + b"x" * 50_000 + b"\n"]


def test_small_files_share_a_shard_and_large_ones_are_cut(tmp_path, monkeypatch):
    """Every line is in one shard, in order; a shard has a piece of a large file, or as many small ones as it can."""
    monkeypatch.setattr(sources, "BLOCK", 1000)
    random = np.random.default_rng(0)
    lines, at = [f"line {number:06}\n" for number in range(2000)], 0
    for number, size in enumerate([*random.integers(0, 20, 50), 900, *random.integers(0, 20, 9)]):
        (tmp_path / f"{number:02}.txt").write_text("".join(lines[at : at + size]))
        at += size
    shards = sources.source_of(tmp_path / "*.txt").shards(tmp_path / "unpacked", Threads(2))
    blocks = [sources.text_of(shard).decode() for shard in shards]
    assert "\n".join(blocks).split() == "".join(lines[:at]).split()
    assert max(map(len, blocks)) <= 1000 + 12
    assert all(len(one) + len(other) > 900 for one, other in itertools.pairwise(blocks))
    assert not list((tmp_path / "unpacked").iterdir())  # they are plain, so nothing is copied


def test_a_text_has_the_same_shards_compressed_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 1000)
    text = generated_text(900).encode()
    (tmp_path / "plain.txt").write_bytes(text)
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(text))
    assert len(blocks_of(tmp_path / "plain.txt", tmp_path)) > 10
    assert blocks_of(tmp_path / "plain.txt", tmp_path) == blocks_of(tmp_path / "packed.txt.gz", tmp_path)


@contextmanager
def threading_writer(path, content):
    writer = threading.Thread(target=path.write_bytes, args=(content,))
    writer.start()
    yield
    writer.join()


def test_a_text_without_words(tmp_path):
    with pytest.raises(InputError, match="there are no words in the text"):
        count(["...", "--"], tmp_path)


def test_bytes_that_are_not_utf_8_are_skipped(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"one two\xff\xfe three\n")
    with pytest.warns(PbosWarning, match="2 characters of the text are not UTF-8"):
        found = count(tmp_path / "bad.txt", tmp_path)
    assert found.words == ["one", "three", "two"]


def test_a_replacement_character_of_the_text_is_utf_8(tmp_path):
    (tmp_path / "good.txt").write_text("one \ufffd two\ufffd\n", "utf-8")
    assert count(tmp_path / "good.txt", tmp_path / "good").words == ["one", "two"]  # without a warning
    (tmp_path / "bad.txt").write_bytes("one \ufffd\ufffd".encode() + b"\xef two\xef\xbf\n")
    with pytest.warns(PbosWarning, match="^2 characters of the text are not UTF-8"):
        count(tmp_path / "bad.txt", tmp_path / "bad")


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("some text\n".encode("utf-16"), "file is not UTF-8 text, but UTF-16 or binary"),
        ("some text\n".encode("utf-16-be"), "file is not UTF-8 text, but UTF-16 or binary"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "file is not UTF-8 text, but UTF-16 or binary"),
        (
            b"word " + b"0.1 " * 10 + b"\n",
            "file: these are word vectors, not text; train a model on them with pbos train",
        ),
        (b"2 12\nword " + b"0.1 " * 12 + b"\nother " + b"1 " * 12, "file: these are word vectors, not text"),
    ],
)
def test_what_is_no_text_is_named(tmp_path, compress, content, message):
    (tmp_path / "file").write_bytes(compress(content))
    with pytest.raises(FormatError, match=message):
        count(tmp_path / "file", tmp_path)
