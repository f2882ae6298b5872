"""KeyedVectors for unseen words: compared with gensim itself."""

import copy
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
from gensim.models import FastText, KeyedVectors
from gensim.test.utils import common_texts
from scipy import optimize

import pbos
from pbos import InputError, WordVectors
from pbos.adapters.gensim import keyed_vectors


def plain(words, matrix):
    """gensim's own KeyedVectors."""
    kv = KeyedVectors(matrix.shape[1])
    kv.add_vectors(words, matrix)
    return kv


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


def test_evaluation_is_gensims_own(kv, tmp_path):
    """Of training words; unseen ones are left out, as from FastTextKeyedVectors."""
    oracle = plain(kv.index_to_key, kv.vectors)
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    (tmp_path / "analogies.txt").write_text(ANALOGIES, encoding="utf-8")
    found, expected = (each.evaluate_word_pairs(str(tmp_path / "pairs.tsv")) for each in (kv, oracle))
    assert found[2] == expected[2] > 50
    assert [result[0] for result in found[:2]] == pytest.approx([result[0] for result in expected[:2]], abs=1e-5)
    found, expected = (each.evaluate_word_analogies(str(tmp_path / "analogies.txt")) for each in (kv, oracle))
    assert found == expected
    assert sum(len(expected[1][-1][kind]) for kind in ("correct", "incorrect")) == 2
    assert kv.key_to_index["king"] == kv.index_to_key.index("king")  # as before


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


def test_without_gensim():
    """One line that names the extra."""
    code = "import sys; sys.modules['gensim'] = None; import pbos.adapters.gensim"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        'pbos.adapters.gensim needs an optional dependency; install it with: pip install "pbos[gensim]"'
    )
