"""gensim's files as targets, and KeyedVectors for unseen words: compared with gensim itself."""

import copy
import io
import os
import pickle
import subprocess
import sys
import unicodedata
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gensim import similarities
from gensim.models import Doc2Vec, FastText, KeyedVectors, Word2Vec
from gensim.models.doc2vec import TaggedDocument
from gensim.test.utils import common_texts, datapath
from scipy import optimize, stats

import pbos
from pbos import FormatError, InputError, WordVectors
from pbos.adapters.gensim import keyed_vectors
from pbos.tables.pickles import Inert, as_array, read_pickle

# -- gensim's files, read as data --------------------------------------------------------------------------------------

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


# -- KeyedVectors for unseen words -------------------------------------------------------------------------------------

UNSEEN = ["unfriendliest", "covfefe", "naïvetyish", "zoomable", "Tweetable", "sub-editorship"]
NOTHING = "ЖЖЖ"  # no subword of which the English model knows


@pytest.fixture(scope="module")
def english():
    model = pbos.load()
    assert not set(UNSEEN) & set(model.words)
    return model


@pytest.fixture(scope="module")
def oracle(english):
    """gensim's own KeyedVectors in which the unseen words are ordinary rows, after the vocabulary."""
    return plain([*english.words, *UNSEEN], np.stack([english[word] for word in [*english.words, *UNSEEN]]))


@pytest.fixture(scope="module")
def kv(english):
    return keyed_vectors(english)


VECTOR = np.random.default_rng(0).normal(size=160).astype(np.float32)
METHODS = {
    "get one": lambda kv: kv["unfriendliest"],
    "get a row": lambda kv: kv[5],
    "get many": lambda kv: kv[["covfefe", "king", "zoomable"]],
    "get many, rows too": lambda kv: kv[["covfefe", 17, "king"]],
    "get an array": lambda kv: kv[np.array(["covfefe", "king"])],
    "get_vector": lambda kv: kv.get_vector("naïvetyish"),
    "get_vector, norm": lambda kv: kv.get_vector("naïvetyish", norm=True),
    "get_vector, trained, norm": lambda kv: kv.get_vector("king", norm=True),
    "get_normed_vectors": lambda kv: kv.get_normed_vectors()[:1000],
    "get_mean_vector": lambda kv: kv.get_mean_vector(["unfriendliest", "king", VECTOR, 5], weights=[1, 2, -1, 0.5]),
    "get_mean_vector, raw": lambda kv: kv.get_mean_vector(["covfefe", "king"], pre_normalize=False),
    "get_mean_vector, some missing": lambda kv: kv.get_mean_vector(["covfefe", NOTHING, "king"]),
    "similarity": lambda kv: kv.similarity("unfriendliest", "Tweetable"),
    "distance": lambda kv: kv.distance("unfriendliest", "king"),
    "distances, all": lambda kv: kv.distances("unfriendliest"),
    "distances, some": lambda kv: kv.distances("king", ["unfriendliest", "queen", "covfefe"]),
    "distances, of a vector": lambda kv: kv.distances(VECTOR, ("zoomable", "queen")),
    "n_similarity": lambda kv: kv.n_similarity(["unfriendliest", "king"], ["covfefe", "zoomable"]),
    "most_similar": lambda kv: kv.most_similar("unfriendliest"),
    "most_similar, many": lambda kv: kv.most_similar(["Tweetable", ("king", 0.5), VECTOR], ["covfefe", "man"]),
    "most_similar, trained": lambda kv: kv.most_similar("king"),
    "most_similar, restricted": lambda kv: kv.most_similar(["zoomable"], restrict_vocab=5000),
    "most_similar, clipped": lambda kv: kv.most_similar(["zoomable"], clip_start=100, clip_end=9000),
    "most_similar, all": lambda kv: kv.most_similar(["zoomable"], topn=None),
    "most_similar, none": lambda kv: kv.most_similar(["zoomable"], topn=0),
    "most_similar_cosmul": lambda kv: kv.most_similar_cosmul(["Tweetable", "king"], ["covfefe"]),
    "most_similar_to_given": lambda kv: kv.most_similar_to_given("unfriendliest", ["king", "covfefe", "rude"]),
    "similar_by_word": lambda kv: kv.similar_by_word("naïvetyish"),
    "similar_by_key": lambda kv: kv.similar_by_key("naïvetyish", topn=3),
    "similar_by_vector": lambda kv: kv.similar_by_vector(VECTOR, topn=5),
    "closer_than": lambda kv: kv.closer_than("unfriendliest", "unkind"),
    "closer_than, unseen": lambda kv: kv.closer_than("unfriendly", "unfriendliest"),
    "closer_than, both": lambda kv: kv.closer_than("zoomable", "Tweetable"),
    "closer_than, trained": lambda kv: kv.closer_than("king", "queen"),
    "doesnt_match": lambda kv: kv.doesnt_match(["breakfast", "unfriendliest", "dinner", "lunch", NOTHING]),
    "rank_by_centrality": lambda kv: " ".join(word for _, word in kv.rank_by_centrality(["king", "queen", "zoomable"])),
    "relative_cosine_similarity": lambda kv: kv.relative_cosine_similarity("king", "covfefe"),
    "vectors_for_all": lambda kv: kv.vectors_for_all(["covfefe", "king", NOTHING, "king"]).vectors,
    "vectors_for_all, names": lambda kv: " ".join(kv.vectors_for_all(["covfefe", "king", NOTHING]).index_to_key),
    "vectors": lambda kv: kv.vectors[:5000],
    "index": lambda kv: kv.get_index("king"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", METHODS)
def test_methods_agree_with_gensim_where_unseen_words_are_rows(kv, oracle, name):
    result, expected = METHODS[name](kv), METHODS[name](oracle)
    if isinstance(expected, (str, int)):
        assert result == expected
    elif isinstance(expected, list):  # among what the oracle finds are unseen words, which are not in our vocabulary
        pairs = [item if isinstance(item, tuple) else (item, 0) for item in expected]
        ours = [item if isinstance(item, tuple) else (item, 0) for item in result]
        known = [(word, pytest.approx(near, abs=1e-5)) for word, near in pairs if word not in UNSEEN]
        assert len(ours) == len(known) if "closer" in name else len(ours) == len(expected)
        assert ours[: len(known)] == known
    else:  # numbers, perhaps one for each row
        rows = len(kv) if np.shape(expected) == (len(oracle),) else None
        np.testing.assert_allclose(result, expected[:rows] if rows else expected, atol=1e-5)


def test_rank(kv, oracle):
    """A rank counts the words of the vocabulary that are nearer."""
    for first, second in [("unfriendliest", "unkind"), ("unfriendly", "unfriendliest"), ("king", "queen")]:
        nearer_unseen = set(oracle.closer_than(first, second)) & set(UNSEEN)
        assert kv.rank(first, second) == oracle.rank(first, second) - len(nearer_unseen)


def test_a_key_without_vector_is_a_key_error(kv):
    for key in (NOTHING, "", "\ud800", 100_000_000, -1, None):
        assert key not in kv
        with pytest.raises(KeyError, match="not present"):
            kv[key] if key is not None else kv.get_vector(key)
        with pytest.raises(KeyError, match="not present"):
            kv[["king", key]]
        assert not kv.has_index_for(key)
    with pytest.raises(KeyError, match=NOTHING):
        kv.most_similar(NOTHING)
    with pytest.raises(KeyError, match=NOTHING):
        kv.get_mean_vector(["king", NOTHING], ignore_missing=False)
    assert kv[[]].shape == (0, 160)


@pytest.mark.parametrize("kind", ["pbos", "fastText"])
def test_unseen_words_are_treated_as_fasttext_treats_them(kv, kind):
    """As gensim's users know it from FastTextKeyedVectors."""
    if kind == "fastText":
        kv = FastText(common_texts, vector_size=8, min_count=1, bucket=100).wv
    trained, unseen = kv.index_to_key[0], "computerness"
    assert trained in kv
    assert unseen in kv
    assert trained in kv.key_to_index
    assert unseen not in kv.key_to_index
    assert kv.has_index_for(trained)
    assert not kv.has_index_for(unseen)
    assert kv.get_vector(unseen).shape == (kv.vector_size,)
    assert kv.get_vector(unseen).dtype == np.float32
    assert np.linalg.norm(kv.get_vector(unseen, norm=True)) == pytest.approx(1)
    assert len(kv.most_similar(unseen, topn=3)) == 3
    assert unseen not in dict(kv.most_similar(trained, topn=len(kv)))
    with pytest.raises(KeyError):
        kv.get_index(unseen)
    with pytest.raises(KeyError):
        kv.get_vecattr(unseen, "count")
    with pytest.raises(ValueError, match="read-only"):
        kv.get_vector(trained)[0] = 1


def test_nothing_is_composed_ahead(english):
    kv = keyed_vectors(english)
    trained = kv["king"], kv[["king", "queen"]], kv.similarity("king", "covfefe"), kv.distances("king", ["covfefe"])
    assert "vectors" not in vars(kv)
    assert len(kv) == len(english.words)
    kv.fill_norms()
    assert "vectors" in vars(kv)
    assert np.array_equal(trained[0], kv["king"])
    assert np.array_equal(trained[1], kv[["king", "queen"]])
    with pytest.raises(AttributeError, match="key_to_index"):
        kv.vocab  # noqa: B018  # gensim's own hint is still given
    with pytest.raises(AttributeError, match="nonsense"):
        kv.nonsense  # noqa: B018


# -- evaluation --------------------------------------------------------------------------------------------------------

PAIRS = f"""# a comment
word\tword\tscore
king\tqueen\t8.5
good\tbetter\t7
king\tunfriendliest\t1
covfefe\tcoffee\t3
Zoomable\tTweetable\t4
not enough\t3
naïvetyish\tnaive\t9
{NOTHING}\tking\t5
"""
ANALOGIES = f""": of kings
king queen man woman
unfriendliest unfriendly covfefe zoomable
not enough words
: of others
good better bad worse
king queen {NOTHING} woman
unfriendly unfriendliest friendly Tweetable
"""


@pytest.mark.parametrize(("case_insensitive", "dummy4unknown"), [(True, True), (False, False)])
def test_evaluation_takes_unseen_words(kv, tmp_path, case_insensitive, dummy4unknown):
    """The English model has lowercase words only, so if case does not matter, words are looked up in lower case."""
    cased = ["zoomable", "tweetable"] if case_insensitive else ["zoomable", "Zoomable", "Tweetable"]
    unseen = ["unfriendliest", "covfefe", "naïvetyish", *cased]
    oracle = plain([*kv.index_to_key, *unseen], np.vstack([kv.vectors, *(kv.model[word] for word in unseen)]))
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    (tmp_path / "analogies.txt").write_text(ANALOGIES, encoding="utf-8")
    settings = {"case_insensitive": case_insensitive, "dummy4unknown": dummy4unknown}
    pearson, spearman, unknown = kv.evaluate_word_pairs(str(tmp_path / "pairs.tsv"), **settings)
    expected = oracle.evaluate_word_pairs(str(tmp_path / "pairs.tsv"), **settings)
    assert unknown == pytest.approx(100 / 7) == expected[2]
    assert pearson == pytest.approx(expected[0], abs=1e-5)
    assert spearman == pytest.approx(expected[1], abs=1e-5)
    score, sections = kv.evaluate_word_analogies(str(tmp_path / "analogies.txt"), **settings)
    assert (score, sections) == oracle.evaluate_word_analogies(str(tmp_path / "analogies.txt"), **settings)
    assert sum(len(sections[-1][kind]) for kind in ("correct", "incorrect")) == (5 if dummy4unknown else 4)
    assert kv.key_to_index["king"] == kv.index_to_key.index("king")  # as before


def test_evaluation_without_unseen_words_leaves_most_out(kv, tmp_path):
    """So the test above is about unseen words; neither restrict_vocab nor capitals lose any."""
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    (tmp_path / "capitals.tsv").write_text(PAIRS.upper(), encoding="utf-8")
    assert plain(kv.index_to_key, kv.vectors).evaluate_word_pairs(str(tmp_path / "pairs.tsv"))[2] > 50
    whole = kv.evaluate_word_pairs(str(tmp_path / "pairs.tsv"))
    limited = kv.evaluate_word_pairs(str(tmp_path / "pairs.tsv"), restrict_vocab=100)
    capitals = kv.evaluate_word_pairs(str(tmp_path / "capitals.tsv"))
    assert limited[0] == pytest.approx(whole[0], abs=1e-5)
    assert capitals[0] == pytest.approx(whole[0], abs=1e-5)


def test_rare_words(kv, english, shared_data):
    """Over 2,034 pairs, gensim's evaluation is the rank correlation of the model's own cosines."""
    path = shared_data / "similarity" / "rareword.txt"
    first, second, scores = zip(*(line.split("\t")[:3] for line in path.read_text().splitlines()), strict=True)
    expected = stats.spearmanr(english.similarity(first, second), np.array(scores, float)).statistic
    _, spearman, unknown = kv.evaluate_word_pairs(str(path), case_insensitive=False)
    assert unknown == 0
    assert spearman[0] == pytest.approx(expected, abs=1e-4)


def emd2(first, second, distances):
    """The earth mover's distance as a linear program, in place of POT, which gensim needs."""
    n = len(first)
    constraints = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return optimize.linprog(np.ravel(distances), A_eq=constraints, b_eq=np.concatenate([first, second])).fun


def test_word_movers_distance(kv, oracle, monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", SimpleNamespace(emd2=emd2))
    documents = ["the", "unfriendliest", "king", NOTHING], ["this", "covfefe", "Tweetable", "queen"]
    assert kv.wmdistance(*documents) == pytest.approx(oracle.wmdistance(*documents), abs=1e-5)
    assert kv.wmdistance([NOTHING], documents[1]) == float("inf")


def test_soft_cosine(kv, oracle):
    """An index of gensim that is made from KeyedVectors."""
    near, expected = (similarities.WordEmbeddingSimilarityIndex(each) for each in (kv, oracle))
    found = [(word, pytest.approx(score, abs=1e-5)) for word, score in expected.most_similar("zoomable", topn=5)]
    assert list(near.most_similar("zoomable", topn=5)) == [pair for pair in found if pair[0] not in UNSEEN]


# -- given vectors, changes, files -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(english):
    """A model with its given vectors, which differ from the composed ones."""
    words = [*english.words[:300], "café"]
    return pbos.train((words, english.embed(words)), lam=0.1, keep_targets=True)


def test_exact(small, english):
    given = english.embed(small.words)
    for exact, expected in ((True, given), (False, small.embed(small.words))):
        kv = keyed_vectors(small, exact=exact)
        for _ in range(2):  # before the vocabulary is composed, and after
            assert np.array_equal(kv["people"], expected[small.words.index("people")])
            assert np.array_equal(kv[small.words], expected)
            assert np.array_equal(kv[["peoples", "people"]][0], small["peoples"])
            assert np.array_equal(kv[unicodedata.normalize("NFD", "café")], expected[-1])
            assert np.array_equal(kv.vectors, expected)
    assert not np.allclose(given, small.embed(small.words), atol=1e-3)
    with pytest.raises(InputError, match="keep_targets=True"):
        keyed_vectors(english, exact=True)


def test_another_form_of_a_word_is_the_same_word(small):
    kv, form = keyed_vectors(small), unicodedata.normalize("NFD", "café")
    assert form not in kv.key_to_index
    assert kv.get_index(form) == kv.get_index("café")
    assert "café" not in dict(kv.most_similar(form, topn=300))


def test_vectors_of_ones_own(small, english):
    """As in KeyedVectors, except that lengths are computed again, where gensim keeps the old ones."""
    kv, expected = keyed_vectors(small), plain(small.words, small.embed(small.words))
    kv.most_similar("people")
    kv["peoples"] = english["peoples"]
    expected.add_vectors(["peoples"], [english["peoples"]])
    assert np.array_equal(kv["peoples"], english["peoples"])
    assert "peoples" in kv.key_to_index
    assert np.array_equal(kv[["peoples", "people"]], expected[["peoples", "people"]])
    assert [word for word, _ in kv.most_similar("peoples")] == [word for word, _ in expected.most_similar("peoples")]
    assert "peoples" not in small
    kv["people"] = english["peoples"]
    assert kv.similarity("people", "peoples") == pytest.approx(1)
    assert np.array_equal(kv[["people"]][0], english["peoples"])


def test_sorting(small):
    kv, before = keyed_vectors(small), keyed_vectors(small)
    with pytest.raises(KeyError, match="count"):  # a model holds no counts
        kv.sort_by_descending_frequency()
    for row, word in enumerate(small.words):
        kv.set_vecattr(word, "count", row)
    kv.sort_by_descending_frequency()
    assert kv.index_to_key == small.words[::-1]
    assert all(np.array_equal(kv[word], before[word]) for word in small.words)
    assert small.words[0] == before.index_to_key[0]


def test_unit_normalize_all(small):
    kv = keyed_vectors(small)
    near = kv.most_similar("peoples")
    kv.unit_normalize_all()
    assert np.allclose(np.linalg.norm(kv.vectors, axis=1), 1)
    assert [word for word, _ in kv.most_similar("peoples")] == [word for word, _ in near]


def test_a_training_word_that_lost_its_subwords(english):
    """Its vector is zero, so its cosine with all words is 0; gensim alone would rank NaN first."""
    words = [*english.words[:300], "жщ"]
    model = pbos.train((words, english.embed(english.words[:301])), lam=0.1).compress(min_vector_words=2)
    assert not model["жщ"].any()
    kv = keyed_vectors(model)
    assert "жщ" in kv
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert dict(kv.most_similar("people", topn=300))["жщ"] == 0
        assert kv.distances("people")[-1] == 1
        assert not kv.get_vector("жщ", norm=True).any()
        assert not kv[["жщ", "people"]][0].any()


@pytest.mark.parametrize("used", [False, True])
def test_copies_and_files(small, tmp_path, used):
    kv = keyed_vectors(small, exact=True)
    if used:
        kv.most_similar("people")
    kv.save(str(tmp_path / "a.kv"))
    kv.save(str(tmp_path / "b.kv"), sep_limit=10)
    again = [pickle.loads(pickle.dumps(kv)), copy.copy(kv), copy.deepcopy(kv)]
    again += [KeyedVectors.load(str(tmp_path / name)) for name in ("a.kv", "b.kv")]
    for other in again:
        assert type(other) is type(kv)
        assert np.array_equal(other[["peoples", "people"]], kv[["peoples", "people"]])
        assert other.most_similar("peoples") == kv.most_similar("peoples")


@pytest.mark.parametrize("binary", [True, False])
def test_save_word2vec_format(small, tmp_path, binary):
    keyed_vectors(small).save_word2vec_format(str(tmp_path / "a.vec"), binary=binary)
    vectors = WordVectors.read(tmp_path / "a.vec")
    assert vectors.words == small.words
    assert np.array_equal(vectors.vectors, small.embed(small.words))


def test_what_others_get_without_pbos(kv, tmp_path):
    """vectors_for_all makes gensim's own KeyedVectors of any words."""
    chosen = kv.vectors_for_all(["king", *UNSEEN])
    assert type(chosen) is KeyedVectors
    chosen.save(str(tmp_path / "a.kv"))
    assert np.array_equal(WordVectors.read(tmp_path / "a.kv").vectors, kv[["king", *UNSEEN]])


def test_the_example(english, tmp_path):
    """examples/gensim_unseen.py, in ten lines: vectors for unseen words from plain word vectors (gensim#1953)."""
    plain(english.words[:3000], english.embed(english.words[:3000])).save_word2vec_format(str(tmp_path / "a.vec"))
    example = Path(__file__).parents[2] / "examples" / "gensim_unseen.py"
    code = example.read_text(encoding="utf-8").splitlines()[1:]
    assert len([line for line in code if line]) <= 10
    command = [sys.executable, str(example), str(tmp_path / "a.vec"), "internationalise", "people"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("internationalise False True ('international', ")
    assert second.startswith("people True True (")


def test_a_file_of_gensim_cannot_be_written_without_it(tmp_path, monkeypatch, given):
    monkeypatch.setattr("pbos.tables.formats.find_spec", lambda name: None)
    with pytest.raises(pbos.MissingExtraError, match=r"writing gensim's .kv files .*pbos\[gensim\]"):
        WordVectors.of(given).write(tmp_path / "a.kv")
    assert not list(tmp_path.iterdir())


def test_without_gensim():
    """One line that names the extra."""
    code = "import sys; sys.modules['gensim'] = None; import pbos.adapters.gensim"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        'pbos.adapters.gensim needs an optional dependency; install it with: pip install "pbos[gensim]"'
    )
