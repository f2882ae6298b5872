"""Rows that cannot be used are dropped with one warning: not finite, empty, duplicate, not UTF-8."""

import mmap
from types import SimpleNamespace

import numpy as np
import pytest
from table_files import binary, npz, same

from pbos.errors import PbosWarning
from pbos.tables.word_vectors import WordVectors


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
