"""Writing vectors: what is written is read back, in each format, or refused."""

import os

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from table_files import COMPRESS, HIGH, binary, same

from pbos.errors import InputError
from pbos.tables import formats
from pbos.tables.word_vectors import WordVectors

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
    with pytest.raises(InputError, match="the folder contains files other than vectors"):
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


@pytest.mark.parametrize("name", ["googlenews-en-8k", "glove840b-en-10k"])
def test_real_vectors_in_every_format(shared_data, tmp_path, name):
    vectors = WordVectors.read(shared_data / "vectors" / name, limit=2000)
    assert vectors.vectors.shape == (2000, 300)
    for target in ("x.vec", "x.bin", "x.glove", "x.npz", "x", "x.vec.gz", "x.kv", "x.safetensors"):
        vectors.write(tmp_path / target)
        assert same(WordVectors.read(tmp_path / target), vectors)
