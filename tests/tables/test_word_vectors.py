"""The class WordVectors: what it takes, what it holds, and reading in general."""

import gzip
import os
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_files import HIGH, binary, same

import pbos
from pbos.errors import FormatError, InputError, MissingExtraError, PbosWarning
from pbos.tables import word_vectors
from pbos.tables.word_vectors import WordVectors


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
        (["a", "b"], [[1, 2], [3]], "cannot become a NumPy array .*inhomogeneous"),
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
    with pytest.raises(InputError, match="word vectors: the vectors cannot become a NumPy array"):
        WordVectors.of({"a": [1, 2], "b": [1]})
    with pytest.raises(FileNotFoundError):
        WordVectors.of("no/such/file.vec")


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        WordVectors.read(tmp_path / "none.vec")


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
