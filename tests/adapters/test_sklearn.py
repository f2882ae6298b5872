"""scikit-learn: the transformers against plain NumPy, scikit-learn's own checks, and real tasks."""

import copy
import gzip
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import pbos
from pbos import InputError
from pbos.adapters.sklearn import PbosVectorizer, WordEmbedder
from pbos.words.texts import split_text

WORDS = ["higher", "unfriendliest", "covfefe", "ЖЖЖ", "king"]  # the fourth has no known subword
TEXTS = [
    "The king was unfriendly, the unfriendliest of all kings.",
    "Don't tweet! A zoomable map is not tweetable.",
    "the the the of ЖЖЖ",
    "",
    "ЖЖЖ ЩЩЩ",
    "A naïve map of the kingdom",
]
EMPTY = [3, 4]


@pytest.fixture(scope="module")
def model():
    return pbos.load()


@pytest.fixture(scope="module")
def small(model, tmp_path_factory):
    """A model of few words and three dimensions, in a folder."""
    path = tmp_path_factory.mktemp("models") / "small"
    vectors = np.random.default_rng(0).normal(size=(300, 3))
    pbos.train((model.words[:300], vectors), lam=0.1).save(path)
    return path


# -- values ------------------------------------------------------------------------------------------------------------


def test_words(model):
    vectors = WordEmbedder().fit_transform(WORDS)
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, np.stack([model[word] for word in WORDS]))
    assert not vectors[3].any()
    assert np.array_equal(WordEmbedder().transform(WORDS), vectors)  # nothing is learned


MISSING = [None, np.nan, pd.NA, ""]


@pytest.mark.parametrize("nothing", MISSING, ids=repr)
def test_missing_words(model, nothing):
    words = ["king", nothing, "queen"]
    with pytest.raises(InputError, match=r'word 1 is (missing|an empty string).*missing="zeros"'):
        WordEmbedder().fit_transform(words)
    vectors = WordEmbedder(missing="zeros").fit_transform(words)
    assert np.array_equal(vectors, np.stack([model["king"], np.zeros(160), model["queen"]]))


@pytest.mark.parametrize("nothing", MISSING[:-1], ids=repr)
def test_missing_texts(nothing):
    texts = ["a king", "", nothing]
    with pytest.raises(InputError, match=r'text 2 is missing .*missing="zeros"'):
        PbosVectorizer().fit(texts)
    fitted = PbosVectorizer().fit(TEXTS)
    with pytest.raises(InputError, match="text 2 is missing"):
        fitted.transform(texts)
    vectors = PbosVectorizer(missing="zeros").fit_transform(texts)
    assert vectors[0].any() and not vectors[1:].any()


def test_words_with_too_little_confidence_get_zeros(confident, small_vectors):
    words = [*small_vectors.words[1480:1600], None, "ЖЖ"]
    vectors = WordEmbedder(confident, missing="zeros", min_confidence=0.9).fit_transform(words)
    for word, vector in zip(words, vectors, strict=True):
        sure = word is not None and confident.confidence(word) >= 0.9
        np.testing.assert_allclose(vector, confident[word] if sure else 0, atol=1e-6)
    assert 30 < vectors.any(axis=1).sum() < 110
    assert np.array_equal(WordEmbedder(confident, "zeros", 0).transform(words), confident.embed(words, missing="zeros"))


def test_words_with_too_little_confidence_are_left_out_of_texts(confident, small_vectors):
    new = small_vectors.words[1500:1600]
    sure = [word for word in new if confident.confidence(word) >= 0.9]
    unsure = [word for word in new if word not in sure]
    texts = [" ".join(new), " ".join(unsure), " ".join([unsure[0], *sure[:2]])]
    vectors = PbosVectorizer(confident, min_confidence=0.9).fit_transform(texts)
    expected = [confident.embed(some).mean(axis=0) for some in (sure, sure[:2])]
    np.testing.assert_allclose(vectors[[0, 2]], expected, atol=1e-5)
    assert not vectors[1].any()


@pytest.mark.parametrize("transformer", [WordEmbedder, PbosVectorizer])
def test_a_least_confidence_that_cannot_be_used(transformer, confident, small):
    for least in (1.5, "high", np.nan):
        with pytest.raises(InputError, match="min_confidence must be a number from 0 to 1, got "):
            transformer(confident, min_confidence=least).fit(["king"])
    with pytest.raises(InputError, match="this model has no confidence"):
        transformer(small, min_confidence=0.5).fit(["king"])


def textbook(model, fitted, texts, weighting, a, remove):
    """SIF (Arora et al. 2017, algorithm 1), sentence by sentence; without the weights or the removal on request."""
    counts = Counter(word for text in fitted for word in text.lower().split())
    total = sum(counts.values())

    def average(text):
        known = [word for word in text.lower().split() if model[word].any()]
        weights = [a / (a + counts[word] / total) if weighting == "sif" else 1 for word in known]
        vectors = [weight * model[word].astype(float) for word, weight in zip(known, weights, strict=True)]
        return np.sum(vectors, axis=0) / len(known) if known else np.zeros(model.dims)

    result = np.array([average(text) for text in texts])
    if remove:
        _, _, directions = np.linalg.svd(np.array([average(text) for text in fitted]))
        first = directions[0]
        result = np.array([vector - first * (first @ vector) for vector in result])
    return result


@pytest.mark.parametrize("weighting", ["mean", "sif"])
@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("a", [1e-3, 0.1])
def test_texts_by_the_formula(model, weighting, remove, a):
    """Fitted on some texts, then used on others with new words."""
    vectorizer = PbosVectorizer(weighting=weighting, a=a, remove_component=remove, tokenizer=str.split).fit(TEXTS)
    others = ["A king unknown to kings", *TEXTS, "ЖЖЖ king", "tea"]
    expected = textbook(model, TEXTS, others, weighting, a, remove)
    vectors = vectorizer.transform(others)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=2e-5)
    assert not vectors[[1 + at for at in EMPTY]].any()
    assert (vectorizer.component_ is not None) == remove


def test_given_counts(tmp_path):
    """The counts of a mapping or a file take the place of those in the texts; lower-cased if the texts are."""
    counts = {"the": 60, "The": 20, "king": 1, "of": 19}
    pbos.WordCounts.of(counts).write(tmp_path / "counts.tsv")
    for given in (counts, tmp_path / "counts.tsv"):
        sif = PbosVectorizer(weighting="sif", counts=given).fit(TEXTS)
        assert sif.word_probs_ == {"the": 0.8, "king": 0.01, "of": 0.19}
        same = PbosVectorizer(weighting="sif").fit(["the " * 80 + "of " * 19 + "king"])
        np.testing.assert_allclose(sif.transform(TEXTS), same.transform(TEXTS), atol=1e-6)
    assert PbosVectorizer(weighting="sif", counts=counts, lowercase=False).fit([]).word_probs_["The"] == 0.2
    assert np.array_equal(PbosVectorizer(counts=counts).fit_transform(TEXTS), PbosVectorizer().fit_transform(TEXTS))


def test_settings_matter(model):
    """Each setting changes the vectors, so the test above really tests each of them."""
    settings = [
        {},
        {"weighting": "sif"},
        {"weighting": "sif", "a": 0.1},
        {"remove_component": True},  # not lowercase: the English model reads capitals as lower case anyway
    ]
    results = [PbosVectorizer(**each).fit_transform(TEXTS) for each in settings]
    for at, result in enumerate(results):
        for other in results[:at]:
            assert not np.allclose(result, other, atol=1e-3)


def test_many_texts_are_averaged_in_parts(monkeypatch):
    whole = PbosVectorizer(weighting="sif", remove_component=True).fit_transform(TEXTS)
    monkeypatch.setattr("pbos.adapters.sklearn.TEXTS", 2)
    assert np.allclose(PbosVectorizer(weighting="sif", remove_component=True).fit_transform(TEXTS), whole, atol=1e-6)


def test_words_of_a_text():
    assert split_text("It's 'quoted', isn’t it? “So.” state-of-the-art 3.5 a_b\tc\nd\x00e") == (
        ["It's", "quoted", "isn’t", "it", "So", "state", "of", "the", "art", "3", "5", "a", "b", "c", "d", "e"]
    )
    assert split_text("हिन्दी की किताब, می‌خواهم") == ["हिन्दी", "की", "किताब", "می‌خواهم"]  # marks and joiners stay
    assert split_text("' -- ’") == []


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({"token_pattern": r"(?u)\b\w\w+\b"}, "the king unfriendly"),
        ({"token_pattern": r"(k\w+)g"}, "kin"),  # a group, as in CountVectorizer
        ({"tokenizer": lambda text: ["king", "", text[:3]]}, "king the"),
        ({"lowercase": False}, "The king a unfriendly"),
    ],
)
def test_what_is_a_word(settings, same):
    vectors = PbosVectorizer(**settings).fit_transform(["The king: a unfriendly"])
    assert np.array_equal(vectors, PbosVectorizer(tokenizer=str.split, lowercase=False).fit_transform([same]))


# -- what people hand over ---------------------------------------------------------------------------------------------

COLUMNS = {
    "list": list,
    "tuple": tuple,
    "generator": lambda words: (word for word in words),
    "array": np.array,
    "array of objects": lambda words: np.array(words, object),
    "column of an array": lambda words: np.array(words)[:, None],
    "lists of one": lambda words: [[word] for word in words],
    "pandas": pd.Series,
    "pandas, strings": lambda words: pd.Series(words, dtype="string"),
    "pandas, categories": lambda words: pd.Series(words, dtype="category"),
    "pandas index": pd.Index,
    "pandas frame": lambda words: pd.DataFrame({"word": words}),
    "polars": pl.Series,
    "polars frame": lambda words: pl.DataFrame({"word": words}),
    "Arrow": pa.array,
    "Arrow, chunked": lambda words: pa.chunked_array([words[:2], words[2:]]),
    "Arrow table": lambda words: pa.table({"word": words}),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_all_kinds(kind):
    make = COLUMNS[kind]
    if kind != "generator":  # which can be read once
        assert np.array_equal(WordEmbedder().fit_transform(make(WORDS)), WordEmbedder().transform(WORDS))
    assert np.array_equal(WordEmbedder().transform(make(WORDS)), WordEmbedder().transform(WORDS))
    vectorizer = PbosVectorizer().fit(make(TEXTS))
    assert np.array_equal(vectorizer.transform(make(TEXTS)), PbosVectorizer().fit_transform(TEXTS))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("a text", "got one string: 'a text'; put it in a list"),
        (7, r"expected (word|text)s \(a list or column of str\), got int"),
        (pd.Series(["a", np.nan]), r"(word|text) 1 is missing \(nan\); drop such (word|text)s"),
        (pa.array(["a", None]), r"(word|text) 1 is missing \(None\)"),
        (np.zeros((2, 1)), "(word|text) 0 is not a str but float"),
        (np.array([["a", "b"]]), "expected one column of (word|text)s, got 2; choose one"),
        ([["a", "b"]], "(word|text) 0 is not a str but list"),
        (["a", "\ud800"], "lone surrogate"),
    ],
)
def test_bad_input(X, message):
    for estimator in (WordEmbedder(), PbosVectorizer(tokenizer=str.split)):
        with pytest.raises(InputError, match=message):
            estimator.fit(X).transform(X)


def test_bad_settings(tmp_path):
    bad = [
        ({"weighting": "tfidf"}, "unknown weighting 'tfidf'; choose one of: mean, sif"),
        ({"a": 0}, "a must be greater than 0"),
        ({"missing": "null"}, "unknown missing 'null'; choose one of: error, zeros"),
    ]
    for settings, message in bad:
        with pytest.raises(InputError, match=message):
            PbosVectorizer(**settings).fit(TEXTS)
    for estimator in (WordEmbedder, PbosVectorizer):
        with pytest.raises(pbos.ModelError, match="nowhere"):
            estimator(tmp_path / "nowhere").fit(TEXTS)
    with pytest.raises(NotFittedError):
        PbosVectorizer().transform(TEXTS)


def test_no_texts():
    assert PbosVectorizer().fit(TEXTS).transform([]).shape == (0, 160)
    assert WordEmbedder().transform([]).shape == (0, 160)
    assert not PbosVectorizer(weighting="sif", remove_component=True).fit_transform(["", ""]).any()


# -- as an estimator ---------------------------------------------------------------------------------------------------

ESTIMATORS = [WordEmbedder(missing="zeros"), PbosVectorizer(weighting="sif")]
WITHOUT_DATA = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
]


def test_check_estimator():
    """Of what check_estimator has, one check is for estimators that take strings only; it says so in a warning.

    The others feed numbers, which these estimators refuse. So the ones that need no data follow by name, and after them
    what the others are about, with words and texts.
    """
    for estimator in ESTIMATORS:
        with pytest.warns(SkipTestWarning, match="Can't test estimator"):
            results = estimator_checks.check_estimator(estimator)
        assert {result["status"] for result in results} == {"passed"}


@pytest.mark.parametrize("check", WITHOUT_DATA)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_checks_that_need_no_data(check, estimator):
    getattr(estimator_checks, check)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_what_scikit_learn_checks_with_numbers(estimator):
    """Subsets, order, repeated fits, no change by transform, fit_transform, pandas."""
    estimator = clone(estimator)
    vectors = estimator.fit_transform(TEXTS)
    before = {name: copy.copy(value) for name, value in vars(estimator).items() if name != "_loaded"}
    assert np.allclose(estimator.transform(TEXTS), vectors, atol=1e-6)
    assert np.allclose(np.vstack([estimator.transform([text]) for text in TEXTS]), vectors, atol=1e-6)
    assert np.allclose(estimator.transform(TEXTS[::-1])[::-1], vectors, atol=1e-6)
    assert {name: value for name, value in vars(estimator).items() if name != "_loaded"} == before
    assert np.allclose(estimator.fit(TEXTS, y=[0] * 6).transform(TEXTS), vectors, atol=1e-6)

    names = estimator.get_feature_names_out()
    assert list(names[:2]) == [f"{type(estimator).__name__.lower()}{i}" for i in range(2)]
    assert len(names) == 160
    frame = clone(estimator.set_output(transform="pandas")).fit_transform(pd.Series(TEXTS, index=list("abcdef")))
    assert list(frame.columns) == list(names)
    assert list(frame.index) == list("abcdef")
    assert (frame.dtypes == np.float32).all()
    assert np.allclose(frame.to_numpy(), vectors, atol=1e-6)
    with config_context(transform_output="polars"):
        assert clone(estimator).set_output(transform="polars").fit_transform(TEXTS).shape == (6, 160)


def test_a_path_stays_a_path(small):
    """A copy loads the model again when it needs it."""
    for estimator in (WordEmbedder(small, missing="zeros"), PbosVectorizer(str(small))):
        vectors = estimator.fit_transform(TEXTS)
        assert vectors.shape == (6, 3)
        content = pickle.dumps(estimator)
        assert len(content) < 2000
        for other in (pickle.loads(content), clone(estimator).fit(TEXTS), copy.deepcopy(estimator)):
            assert other.model == estimator.model
            assert np.array_equal(other.transform(TEXTS), vectors)


def test_none_stays_none():
    for estimator in (WordEmbedder(missing="zeros"), PbosVectorizer()):
        vectors = estimator.fit_transform(TEXTS)
        content = pickle.dumps(estimator)
        assert len(content) < 2000
        assert pickle.loads(content).model is None
        assert np.array_equal(pickle.loads(content).transform(TEXTS), vectors)


def test_a_model_is_shared_by_clones_and_goes_into_pickles(small, model):
    loaded = pbos.load(small)
    for estimator in (WordEmbedder(loaded, missing="zeros"), PbosVectorizer(loaded)):
        vectors = estimator.fit_transform(TEXTS)
        assert clone(estimator).model is loaded
        assert np.array_equal(pickle.loads(pickle.dumps(estimator)).transform(TEXTS), vectors)
        assert estimator.set_params(model=model).fit_transform(TEXTS).shape == (6, 160)
        assert estimator.set_params(model=small).fit_transform(TEXTS).shape == (6, 3)
        assert estimator.set_params(model=None).fit_transform(TEXTS).shape == (6, 160)
        assert len(estimator.get_feature_names_out()) == 160


def test_column_transformer():
    frame = pd.DataFrame({"word": WORDS, "text": TEXTS[:5], "number": range(5)})
    for columns in (("word", "text"), (["word"], ["text"])):
        transformer = ColumnTransformer(
            [("w", WordEmbedder(), columns[0]), ("t", PbosVectorizer(), columns[1]), ("n", "passthrough", ["number"])]
        )
        result = transformer.fit_transform(frame)
        assert np.allclose(result[:, :160], WordEmbedder().transform(WORDS))
        assert np.allclose(result[:, 160:320], PbosVectorizer().fit_transform(TEXTS[:5]), atol=1e-6)
        assert transformer.get_feature_names_out()[0] == "w__wordembedder0"
        assert transformer.set_output(transform="pandas").fit_transform(frame).shape == (5, 321)


# -- real tasks --------------------------------------------------------------------------------------------------------


def sentences(shared_data, language, n):
    with gzip.open(shared_data / "ud-pos" / f"{language}.train.tsv.gz", "rt", encoding="utf-8") as lines:
        blocks = lines.read().split("\n\n")[:n]
    return [[line.split("\t")[:2] for line in block.splitlines()] for block in blocks if block]


def test_grid_search_over_sentences(shared_data):
    """Is a sentence English, Spanish or Indonesian? Even the vectors of an English model can tell."""
    texts, labels = [], []
    for language in ("en", "es", "id"):
        found = [" ".join(word for word, _ in sentence) for sentence in sentences(shared_data, language, 150)]
        texts += found
        labels += [language] * len(found)
    pipeline = make_pipeline(PbosVectorizer(), RidgeClassifier())
    grid = {"pbosvectorizer__weighting": ["mean", "sif"], "pbosvectorizer__remove_component": [False, True]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(texts, labels)
    assert len(search.cv_results_["params"]) == 4
    assert (search.cv_results_["mean_test_score"] > 0.8).all()  # by chance 1/3
    assert search.predict(["the unfriendliest of all kings", "los reyes antipáticos"]).tolist() == ["en", "es"]


def test_parts_of_speech_of_unseen_words(shared_data, model):
    """Noun, verb, adjective or adverb? Fitted on training words of the model, tested on unseen words."""
    tags = {word.lower(): tag for sentence in sentences(shared_data, "en", None) for word, tag in sentence}
    open_class = {word: tag for word, tag in tags.items() if word.isalpha() and tag in ("NOUN", "VERB", "ADJ", "ADV")}
    seen = [word for word in open_class if word in model]
    unseen = [word for word in open_class if word not in model]
    assert len(unseen) > 300
    pipeline = make_pipeline(WordEmbedder(), RidgeClassifier()).fit(seen, [open_class[word] for word in seen])
    truth = [open_class[word] for word in unseen]
    most_frequent = max(Counter(truth).values()) / len(truth)
    assert pipeline.score(unseen, truth) > most_frequent + 0.05


def test_without_scikit_learn():
    code = "import sys; sys.modules['sklearn'] = None; import pbos.adapters.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        'pbos.adapters.sklearn needs an optional dependency; install it with: pip install "pbos[sklearn]"'
    )
