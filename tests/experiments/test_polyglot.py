"""Polyglot's pickles are read as data and never executed."""

import os
import pickle
import struct

import numpy as np
import pytest

from pbos import FormatError
from pbos.tables.pickles import read_polyglot

WORDS = ("<UNK>", "<S>", "</S>", "<PAD>", "the", "straße", "東京")


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_words_and_matrix(tmp_path, protocol):
    matrix = np.arange(28, dtype=np.float32).reshape(7, 4)
    (tmp_path / "p.pkl").write_bytes(pickle.dumps((WORDS, matrix), protocol=protocol))
    words, vectors = read_polyglot(tmp_path / "p.pkl")
    assert words == ["the", "straße", "東京"]
    assert np.array_equal(vectors, matrix[4:])


def test_words_pickled_by_python_2(tmp_path):
    """Protocol 2 as Python 2 wrote it, with byte strings (opcode U)."""

    def text(word):
        data = word.encode()
        return b"U" + bytes([len(data)]) + data

    array = pickle.dumps(np.array([[1.0], [2.0]], np.float32), protocol=2)[2:-1]
    content = b"\x80\x02" + b"(" + text("a") + text("straße") + b"t" + array + b"\x86."
    (tmp_path / "p.pkl").write_bytes(content)
    assert read_polyglot(tmp_path / "p.pkl")[0] == ["a", "straße"]


class Evil:
    def __init__(self, what):
        self.what = what

    def __reduce__(self):
        return self.what


@pytest.mark.parametrize("what", [(os.system, ("touch hacked",)), (eval, ("1+1",)), (np.load, ("x",)), (open, ("x",))])
def test_anything_else_is_rejected_and_not_run(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.pkl").write_bytes(pickle.dumps((("a",), Evil(what))))
    with pytest.raises(FormatError, match=r"not a file of Polyglot vectors \(expected an array of numbers, found"):
        read_polyglot("p.pkl")
    (tmp_path / "p.pkl").write_bytes(pickle.dumps((Evil(what), np.zeros((1, 1)))))
    with pytest.raises(FormatError, match=r"not a file of Polyglot vectors"):
        read_polyglot("p.pkl")
    assert not (tmp_path / "hacked").exists()


def test_not_a_pickle(tmp_path):
    for content in (b"", b"word 1 2 3\n", b"\x80\x02K\x01.", struct.pack("<I", 7)):
        (tmp_path / "p.pkl").write_bytes(content)
        with pytest.raises(FormatError, match=r"not a file of Polyglot vectors|the pickle is damaged"):
            read_polyglot(tmp_path / "p.pkl")


def test_more_words_than_vectors(tmp_path):
    (tmp_path / "p.pkl").write_bytes(pickle.dumps((("a", "b"), np.zeros((1, 1))), protocol=2))
    with pytest.raises(FormatError, match=r"p\.pkl: 2 words but 1 vectors"):  # so that it is downloaded again
        read_polyglot(tmp_path / "p.pkl")
