"""NumPy archives, safetensors, folders, and the side files of gensim."""

import gzip
import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from table_files import COMPRESS, HIGH, npz, same

from pbos.errors import FormatError
from pbos.tables.word_vectors import WordVectors


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


def test_tensors_of_a_type_that_numpy_lacks(tmp_path):
    header = {"vectors": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]}}
    header["words"] = {"dtype": "U8", "shape": [1], "data_offsets": [4, 5]}
    content = json.dumps(header).encode()
    (tmp_path / "x.safetensors").write_bytes(len(content).to_bytes(8, "little") + content + b"\x80\x3f\x80\x3fa")
    with pytest.raises(FormatError, match="NumPy has no numbers of type 'BF16'; save the tensors as F32 or F16"):
        WordVectors.read(tmp_path / "x.safetensors")


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


def test_all_real_folders_are_read(shared_data):
    for folder in sorted((shared_data / "vectors").iterdir()):
        vectors = WordVectors.read(folder, limit=3000)
        assert vectors.dims in (64, 300)
        assert len(vectors) == 3000
