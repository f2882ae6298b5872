"""gensim's files, read as data and written: compared with gensim itself."""

import io
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from gensim.models import Doc2Vec, FastText, KeyedVectors, Word2Vec
from gensim.models.doc2vec import TaggedDocument
from gensim.test.utils import common_texts, datapath

import pbos
from pbos import FormatError, WordVectors
from pbos.tables.pickles import Inert, as_array, read_pickle

WORDS = ["high", "higher", "straße", "東京", "don't"]


def plain(words, matrix):
    kv = KeyedVectors(matrix.shape[1])
    kv.add_vectors(words, matrix)
    return kv


@pytest.fixture
def given():
    return plain(WORDS, np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32))


def same(vectors, kv):
    return vectors.words == kv.index_to_key and np.array_equal(vectors.vectors, kv.vectors.astype(np.float32))


@pytest.mark.parametrize("name", ["a.kv", "a.kv.gz", "a.kv.bz2", "no-suffix"])
@pytest.mark.parametrize("apart", [None, ["vectors"]])
def test_keyed_vectors_saved_by_gensim(tmp_path, given, name, apart):
    """Also with the matrix in a separate file, as gensim saves large ones."""
    given.save(str(tmp_path / name), separately=apart)
    assert len(list(tmp_path.iterdir())) == (2 if apart else 1)
    assert same(WordVectors.read(tmp_path / name), given)
    assert same(WordVectors.read(str(tmp_path / name)), given)
    assert WordVectors.read(tmp_path / name, limit=2).words == WORDS[:2]


@pytest.mark.parametrize("name", ["a.kv", "a.kv.gz", "a.kv.bz2"])
def test_gensim_reads_what_we_write(tmp_path, given, name):
    WordVectors.of(given).write(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    loaded = KeyedVectors.load(str(tmp_path / name))
    assert loaded.index_to_key == WORDS
    assert loaded.vectors.tobytes() == given.vectors.tobytes()
    assert loaded.most_similar("high") == given.most_similar("high")
    assert same(WordVectors.read(tmp_path / name), given)


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_pickle_protocol_and_dtype(tmp_path, given, protocol, dtype, order):
    given.vectors = np.array(given.vectors, dtype, order=order)
    given.save(str(tmp_path / "a.kv"), pickle_protocol=protocol)
    assert same(WordVectors.read(tmp_path / "a.kv"), given)


@pytest.mark.parametrize("apart", [10 * 1024**2, 10])
def test_models_saved_by_gensim(tmp_path, apart):
    """A model has its words and vectors in `wv`, whose matrix can be in a separate file too."""
    word2vec = Word2Vec(common_texts, vector_size=5, min_count=1)
    word2vec.save(str(tmp_path / "w2v.model"), sep_limit=apart)
    assert (tmp_path / "w2v.model.wv.vectors.npy").exists() == (apart == 10)
    assert same(WordVectors.read(tmp_path / "w2v.model"), word2vec.wv)
    doc2vec = Doc2Vec([TaggedDocument(text, [at]) for at, text in enumerate(common_texts)], vector_size=5, min_count=1)
    doc2vec.save(str(tmp_path / "d2v.model"), sep_limit=apart)
    assert same(WordVectors.read(tmp_path / "d2v.model"), doc2vec.wv)


def test_objects_of_gensim():
    model = Word2Vec(common_texts, vector_size=5, min_count=1)
    assert same(WordVectors.of(model.wv), model.wv)
    assert same(WordVectors.of(model), model.wv)


OLD = ["old_keyedvectors_320.dat", "model-from-gensim-3.8.0.w2v", "word2vec_3.3", "word2vec_old", "word2vec_old_sep"]
OLD += [f"old_w2v_models/w2v_{version}.mdl" for version in ("0.13.4", "1.0.1", "2.3.0", "3.0.0", "3.4.0")]


@pytest.mark.parametrize("name", OLD)
def test_files_of_earlier_versions_of_gensim(name):
    """gensim comes with files that its earlier versions wrote."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = KeyedVectors.load(datapath(name))
    assert same(WordVectors.read(datapath(name)), getattr(expected, "wv", expected))


def test_a_file_that_gensim_itself_no_longer_reads():
    """Word2Vec as Python 2 pickled it, before KeyedVectors existed, in one file and in several."""
    vectors = WordVectors.read(datapath("word2vec_pre_kv_py2"))
    assert vectors.words == ["the", "to", "of", "in", "and", "for", "has", "have", "are"]
    assert np.array_equal(vectors.vectors, np.load(datapath("word2vec_pre_kv_sep_py2.syn0.npy")))


def test_train_from_a_saved_file(tmp_path, given):
    given.save(str(tmp_path / "a.kv"))
    from_file, from_object = (pbos.train(source, lam=0.1) for source in (tmp_path / "a.kv", given))
    assert np.array_equal(from_file.embed(["highest", *WORDS]), from_object.embed(["highest", *WORDS]))


class Evil:
    """Pickles as a call of any function with any arguments, then a state."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


CALLS = [
    (os.system, "touch hacked"),
    (eval, "open('hacked', 'w')"),
    (exec, "open('hacked', 'w')"),
    (open, "hacked", "w"),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("protocol", range(2, 6))
def test_nothing_in_a_pickle_is_run(tmp_path, monkeypatch, given, call, protocol):
    """A call is not made, wherever it is in the pickle; everything else is read."""
    monkeypatch.chdir(tmp_path)
    given.lifecycle_events = [Evil(*call)]
    given.save("extra.kv", pickle_protocol=protocol)
    del given.lifecycle_events
    vectors, given.vectors = given.vectors, Evil(*call)
    Path("vectors.kv").write_bytes(pickle.dumps(given, protocol))
    given.vectors, given.index_to_key = vectors, Evil(*call)
    Path("words.kv").write_bytes(pickle.dumps(given, protocol))
    Path("all.kv").write_bytes(pickle.dumps(Evil(*call), protocol))

    assert WordVectors.read("extra.kv").words == WORDS
    for name, what in [
        ("vectors.kv", "expected an array"),
        ("words.kv", "a pickle without"),
        ("all.kv", "a pickle with"),
    ]:
        with pytest.raises(FormatError, match=what):
            WordVectors.read(name)
    assert not Path("hacked").exists()
    pickle.loads(Path("all.kv").read_bytes())  # while Python's own unpickler does make the call
    assert Path("hacked").exists()


def test_nothing_a_pickle_names_is_looked_up():
    """All opcodes that name something give stand-ins that keep the arguments."""
    for content in (
        b"cos\nsystem\n(Vtouch hacked\ntR.",  # GLOBAL, REDUCE
        b"(Vtouch hacked\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nVtouch hacked\no.",  # OBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0ctouch hacked\x85\x81.",  # STACK_GLOBAL, NEWOBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0ctouch hacked\x85}\x92.",  # NEWOBJ_EX
    ):
        thing = read_pickle("a.kv", io.BytesIO(content))
        assert isinstance(thing, Inert)
        assert (thing.made_with, [*thing.arguments]) == ("os.system", ["touch hacked"])
    thing = read_pickle("a.kv", io.BytesIO(b"\x80\x04\x8c\x07no.such\x8c\x03a.b\x93."))
    assert thing == "no.such.a.b"


def test_a_dtype_cannot_pass_bytes_off_as_objects(tmp_path, given):
    """An attack that a list of allowed NumPy names would let through; it crashes NumPy's own loading."""
    *state, _ = np.dtype([("a", "O")]).__reduce__()[2]
    state = (*state, 0)  # the flags that say "these are addresses of objects" are gone
    dtype = Evil(np.dtype, "V8", False, True, state=state)
    reconstruct = np.zeros(1).__reduce__()[0]
    given.vectors = Evil(reconstruct, np.ndarray, (0,), b"b", state=(1, (5, 1), dtype, False, b"AAAAAAAA" * 5))
    (tmp_path / "a.kv").write_bytes(pickle.dumps(given))
    with pytest.raises(FormatError, match=r"expected an array of numbers, found one of dtype 'V8'"):
        WordVectors.read(tmp_path / "a.kv")


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.array([1j]), np.array(["2020"], "M8[D]"), "text"]
)
def test_only_arrays_of_numbers_are_made(array):
    with pytest.raises(ValueError, match="expected an array of numbers"):
        as_array(read_pickle("a.kv", io.BytesIO(pickle.dumps(array))))


def test_a_side_file_is_never_unpickled(tmp_path, given):
    given.save(str(tmp_path / "a.kv"), separately=["vectors"])
    np.save(tmp_path / "a.kv.vectors.npy", np.array([Evil(os.system, "touch hacked")]), allow_pickle=True)
    with pytest.raises(FormatError, match=r"a.kv: its vectors cannot be read \(.*Python objects"):
        WordVectors.read(tmp_path / "a.kv")
    (tmp_path / "a.kv.vectors.npy").unlink()
    with pytest.raises(FormatError, match=r"its vectors are in .*a.kv.vectors.npy, which is missing; copy it too"):
        WordVectors.read(tmp_path / "a.kv")


def test_damaged_pickles(tmp_path, given):
    """Cut anywhere, or with any byte changed: vectors or a FormatError, nothing else."""
    given.save(str(tmp_path / "a.kv"))
    content = (tmp_path / "a.kv").read_bytes()
    rng = np.random.default_rng(0)
    for at in range(1, len(content), 7):
        changed = bytearray(content)
        changed[at] = rng.integers(256)
        for damaged in (content[:at], bytes(changed)):
            (tmp_path / "b.kv").write_bytes(damaged)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", pbos.PbosWarning)
                    WordVectors.read(tmp_path / "b.kv")
            except FormatError as error:
                assert str(error).startswith(str(tmp_path / "b.kv"))


def test_what_holds_no_word_vectors(tmp_path, given):
    fasttext = FastText(common_texts, vector_size=4, min_count=1, bucket=10)
    fasttext.wv.save(str(tmp_path / "fasttext.kv"))  # whose vectors gensim leaves out, to compose them again
    (tmp_path / "list.pkl").write_bytes(pickle.dumps(["a", "b"]))
    for name in ("fasttext.kv", "list.pkl"):
        with pytest.raises(FormatError, match=f"{name}: this is a pickle without word vectors .* save_word2vec_format"):
            WordVectors.read(tmp_path / name)
    assert same(WordVectors.of(fasttext), fasttext.wv)  # loaded by gensim, they are taken

    given.index_to_key[1] = 7
    given.save(str(tmp_path / "numbers.kv"))
    with pytest.raises(FormatError, match=r"numbers.kv: not all keys of these vectors are words"):
        WordVectors.read(tmp_path / "numbers.kv")


def test_a_file_of_gensim_cannot_be_written_without_it(tmp_path, monkeypatch, given):
    monkeypatch.setattr("pbos.tables.formats.find_spec", lambda name: None)
    with pytest.raises(pbos.MissingExtraError, match=r"writing gensim's .kv files .*pbos\[gensim\]"):
        WordVectors.of(given).write(tmp_path / "a.kv")
    assert not list(tmp_path.iterdir())
