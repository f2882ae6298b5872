"""Files made to do harm: they take little memory and get one clear error. `torture.fuzz` looks for more of them."""

import gzip
import io
import itertools
import json
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
from table_files import COMPRESS

import pbos
from pbos.corpus.cooccurrences import Cooccurrences, Counting
from pbos.errors import FormatError, InputError
from pbos.files.paths import decoded_lines, lines_between, open_bytes
from pbos.tables.counts import WordCounts
from pbos.tables.word_vectors import WordVectors

MEGABYTE = 1 << 20


def peak_of(function):
    """Return the most memory that a function takes, in MB."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.fixture
def refused(tmp_path):
    """Check that bytes are refused, with little memory."""

    def check(content, message, read=WordVectors.read, most=30):
        (tmp_path / "file").write_bytes(content)

        def refuse():
            with pytest.raises((FormatError, InputError), match=message):
                read(tmp_path / "file")

        assert peak_of(refuse) < most + 3 * len(content) / MEGABYTE

    return check


# Pickles --------------------------------------------------------------------------------------------------------------


def sized(number, width=8):
    return number.to_bytes(width, "little")


PICKLES = {
    "a memo of 2**28 entries": (b"\x80\x02Nr" + sized(2**28, 4) + b".", "without word vectors"),
    "a memo of 2**40 entries": (b"\x80\x02Np%d\n." % 2**40, "without word vectors"),
    "tuples in tuples": (b"\x80\x02})" + b"\x85" * 300_000 + b"Ns.", "without word vectors"),
    "tuples with others between": (b"\x80\x02})" + b"N\x86" * 300_000 + b"Ns.", "without word vectors"),
    "tuples after marks": (b"\x80\x02}" + b"(" * 100_000 + b"t" * 100_000 + b"Ns.", "without word vectors"),
    "tuples from the memo": (
        b"\x80\x04})\x94" + b"\x85\x940h\x00" * 3 + b"\x85" * 200 + b"Ns.",
        "without word vectors",
    ),
    "a bytearray": (b"\x80\x05\x96" + sized(2**33) + b".", "says that 8589934592 bytes follow, but there are 1"),
    "bytes": (b"\x80\x04\x8e" + sized(2**33) + b".", "says that 8589934592 bytes follow"),
    "text": (b"\x80\x04\x8d" + sized(2**33) + b".", "says that 8589934592 bytes follow"),
    "a frame": (b"\x80\x04\x95" + sized(2**33) + b".", "says that 8589934592 bytes follow"),
    "a negative size": (b"\x80\x02T" + sized(2**31, 4) + b".", "is damaged"),
    "classes": (
        b"\x80\x02" + b"".join(b"cm\n%d\n0" % number for number in range(2000)) + b"N.",
        "without word vectors",
    ),
    "lists in lists": (b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".", "without word vectors"),
    "a number of many digits": (b"\x80\x02I" + b"9" * 100_000 + b"\n.", "is damaged"),
}


@pytest.mark.parametrize("what", PICKLES)
def test_hostile_pickles(refused, what):
    refused(*PICKLES[what])


def keyed_vectors(state):
    """A pickle as gensim writes it, with any state."""
    return b"\x80\x04cgensim.models.keyedvectors\nKeyedVectors\n)\x81" + pickle.dumps(state, 4)[2:-1] + b"b."


class Array:
    """Pickled as an array of NumPy, with a shape that does not belong to it."""

    def __init__(self, shape):
        self.shape = shape

    def __reduce__(self):
        kind = np.dtype("<f4")
        return np._core.numeric._frombuffer, (b"", kind, self.shape, "C")


@pytest.mark.parametrize("shape", [(2**70, 0), (0, 2**40), (0, 0), (-1, 0), "x", ((1,),)])
@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="the module has another name")
def test_arrays_with_impossible_shapes(refused, shape):
    refused(keyed_vectors({"index_to_key": ["a"], "vectors": Array(shape)}), "cannot be read|must have shape|words but")


# Compressed data ------------------------------------------------------------------------------------------------------

BOMB = "compressed bytes expand to over .*, more than text or vectors ever do"


@pytest.mark.parametrize("content", [b"\n", b"a"], ids=["blank lines", "one line"])
@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESS if suffix])
def test_decompression_bombs(refused, suffix, content):
    data = COMPRESS[suffix](content * (40 * MEGABYTE))
    refused(data, BOMB, read=WordCounts.read, most=100)
    refused(COMPRESS[suffix](b"a 1 2\n") + data, f"{BOMB}|a line has over", most=100)


def test_what_is_small_may_be_repetitive(tmp_path):
    (tmp_path / "file").write_bytes(gzip.compress(b"\n" * MEGABYTE + b"the 5\n"))
    assert list(WordCounts.read(tmp_path / "file")) == [("the", 5)]


def npz(**files):
    """An archive of files with the given bytes, or of arrays."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            if not isinstance(content, bytes):
                saved = io.BytesIO()
                np.save(saved, content)
                content = saved.getvalue()
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def header(text):
    return b"\x93NUMPY\x01\x00" + sized(len(text) + 1, 2) + text + b"\n"


def array(shape):
    """An array of no numbers that says it has a shape."""
    return header(b"{'descr': '<f4', 'fortran_order': False, 'shape': %b}" % shape)


WORD = np.array(["a"])
ARCHIVES = {
    "a bomb": (np.zeros((1, 8 * MEGABYTE), np.float32), BOMB),
    "a huge shape": (array(b"(1, %d)" % 2**40), "the archive is damaged"),
    "a shape beyond all": (
        array(b"(1, %d)" % 2**90),
        "the archive is damaged",
    ),
    "a negative shape": (array(b"(-1, 0)"), "damaged|must have shape"),
    "no columns": (
        array(b"(%d, 0)" % 2**30),
        "words but|must have shape",
    ),
    "another dtype": (header(b"{'descr': 'q' * 9, 'fortran_order': False, 'shape': ()}"), "is damaged"),
    "an open bracket": (array(b"("), "is damaged"),
    "many brackets": (header(b"(" * 9000), "is damaged"),
    "a later version": (b"\x93NUMPY\x09\x00", "is damaged"),
    "no array": (b"x", "is damaged"),
}


@pytest.mark.parametrize("what", ARCHIVES)
def test_hostile_archives(refused, what):
    vectors, message = ARCHIVES[what]
    refused(npz(words=WORD, vectors=vectors), message, most=10)


def test_an_encrypted_archive_and_an_unknown_compression(refused):
    whole = npz(words=WORD, vectors=np.eye(1))
    central = whole.index(b"PK\x01\x02")
    for place, value in ((8, 1), (10, 99)):  # the flags, and the kind of compression
        content = bytearray(whole)
        content[central + place] = value
        refused(bytes(content), "the archive is damaged")


# Text -----------------------------------------------------------------------------------------------------------------


def test_lines_without_an_end(refused):
    endless = b"a" * (32 * MEGABYTE)
    refused(b"a 1 2\n" * 400_000 + endless, "a line has over", most=60)
    refused(endless, "no numbers found in the first lines")
    refused(b"a" + b" 1" * (16 * MEGABYTE), "a line has over 69206016 bytes|vectors must have shape", most=400)
    refused(b"2 1\na 1234b" + b"b" * (32 * MEGABYTE), "word 2 has no end|announces 2 rows, but none follow")
    refused(b"a\n" + endless, "the line at byte 2 has over 16 MiB", read=list_words, most=60)


def list_words(path):
    with open_bytes(path) as stream:
        return list(decoded_lines(lines_between(stream), "line"))


def test_a_binary_file_without_a_newline_in_its_first_block(tmp_path):
    """Valid: values and words may happen to have no byte 10, and gensim writes no newline after a vector."""
    generator = np.random.default_rng(0)
    vectors = generator.integers(0x20, 0x7F, (3000, 800), np.uint8).view("<f4")
    rows = [b"word%d " % number + row.tobytes() for number, row in enumerate(vectors)]
    content = b"3000 200\n" + b"".join(rows)
    assert content.count(b"\n") == 1 and len(content) > 2 * MEGABYTE
    (tmp_path / "file").write_bytes(content)
    found = WordVectors.read(tmp_path / "file")
    assert found.words == [f"word{number}" for number in range(3000)]
    assert np.array_equal(found.vectors, vectors)


def test_counts_that_are_too_large_to_add_up():
    with pytest.raises(InputError, match=r"the counts sum to more than 1e\+300; divide all of them"):
        WordCounts(["a", "b", "a"], [1e308, 1, 1e308])
    found = pbos.Segmenter.from_counts({"ab": 4e299, "b": 5e299}).segment("ab", 2)
    assert found[0].pieces == pbos.Segmenter.from_counts({"ab": 4, "b": 5}).segment("ab", 2)[0].pieces


@pytest.mark.parametrize("preset", ["default", "pbos"])
def test_vectors_that_are_too_large_to_add_up(preset):
    for value in (3.4e38, -1e20):
        with pytest.raises(InputError, match=r"the vector of 'low' has a value beyond 1e\+15"):
            pbos.train({"high": [1.0, 2.0], "low": [1.0, value]}, preset=preset)


# Folders --------------------------------------------------------------------------------------------------------------


def test_hostile_arrays_in_a_folder(tmp_path):
    (tmp_path / "words.txt").write_text("a\n")
    for content in (
        b"PK\x03\x04",
        header(b"(" * 9000),
        array(b"()") + bytes(4),
        array(b"(1, %d)" % 2**90),
        array(b"(1, 0)"),
    ):
        (tmp_path / "vectors.npy").write_bytes(content)
        with pytest.raises(FormatError, match=r"not a NumPy array|must have shape"):
            WordVectors.read(tmp_path)


CHANGES = {
    "a column too many": ("indices", lambda a: a + 9),
    "a negative column": ("indices", lambda a: a - 9),
    "rows that go back": ("indptr", lambda a: np.concatenate([[0], a[1:-1][::-1] + 5, a[-1:]])),
    "rows that start late": ("indptr", lambda a: np.concatenate([[1], a[1:]])),
    "negative counts": ("counts", lambda a: -a),
    "another type": ("data", lambda a: a.astype(np.float64)),
    "a matrix": ("data", lambda a: a[None]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_hostile_cooccurrences(tmp_path, what):
    Cooccurrences.of_block("the high the low the\n" * 9, Counting(), ["x"]).save(tmp_path / "pairs")
    name, change = CHANGES[what]
    np.save(tmp_path / "pairs" / f"{name}.npy", change(np.load(tmp_path / "pairs" / f"{name}.npy")))
    with pytest.raises(FormatError, match=r"do not belong together|other types or shapes"):
        Cooccurrences.load(tmp_path / "pairs")


def test_hostile_settings_of_cooccurrences(tmp_path):
    Cooccurrences.of_block("the high the low the\n" * 9, Counting(), ["x"]).save(tmp_path / "pairs")
    info = json.loads((tmp_path / "pairs" / "info.json").read_text())
    for content in (
        "[" * 100_000,
        json.dumps({**info, "counting": [1]}),
        json.dumps({**info, "counting": {**info["counting"], "window": [1]}}),
        json.dumps({**info, "blocks": 3}),
    ):
        (tmp_path / "pairs" / "info.json").write_text(content)
        with pytest.raises(FormatError, match="not a folder of co-occurrences, or damaged"):
            Cooccurrences.load(tmp_path / "pairs")


# Tables ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_a_flipped_bit_in_any_column_of_a_table(kind, tmp_path):
    """Reading and copying a damaged table gives rows or an error; a crash of pyarrow would end the tests."""
    pytest.importorskip("pyarrow")
    from torture import fuzz

    target = fuzz.TARGETS[kind]
    for content in target.seeds():
        for at, bit in itertools.product(range(0, len(content), 40), (0, 7)):
            damaged = bytearray(content)
            damaged[at] ^= 1 << bit
            fuzz.try_case(kind, bytes(damaged))


def test_a_table_whose_column_has_no_utf8_name(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from pbos.tables.columns import words_of_table

    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"wörd": ["high"]}), path, store_schema=False)
    content = path.read_bytes()
    path.write_bytes(content.replace("wörd".encode(), b"w\xff\xffrd"))
    with pytest.raises(FormatError, match="is damaged, or not the kind of table its name says"):
        list(words_of_table(path, None))
