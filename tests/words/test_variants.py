"""Case, accents and parts of words: how a model reads a word that it was not trained on."""

import functools
import itertools
import json
import math
import pickle
import shutil
import string
import unicodedata

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos.errors import InputError, ModelError
from pbos.settings import PRESETS, Spelling
from pbos.words.text import lower, normalize
from pbos.words.variants import FEW, MARGIN, resolved, without_accents

LOWER = ["house", "houses", "berlin", "münchen", "cafe", "iphone", "case", "black", "lives", "matter", "x-ray", "don't"]
CASED = ["house", "House", "Berlin", "the", "iPhone", "NATO", "unfriendly", "Black", "New_York", "muller", "WHO", "who"]
AUTO = Spelling("auto", fallback="auto")


@functools.cache
def model_of(*words, **settings):
    """A small model of some words with random vectors."""
    vectors = np.random.default_rng(0).standard_normal((len(words), 5)).astype(np.float32)
    return pbos.train((list(words), vectors), lam=0.1, progress=False, **settings)


# What fits a table ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capitals", [0, 1, 2, 50, 100])
def test_a_table_with_few_capitals_is_lower_case(capitals):
    words = (
        ["Berlin"] * capitals + ["house"] * (100 - capitals) + ["文", "12", "هذا"] * 100
    )  # without case: not counted
    assert resolved(AUTO, words).normalization == ("NFC" if capitals / 100 > FEW else "lower")


@pytest.mark.parametrize(
    ("words", "fallback"),
    [
        (["house", "berlin"], "accents"),
        (["für", "über", "und"], "case"),
        (["के", "में", "और"], "case"),
        (["сейчас", "который"], "case"),
        (["шина", "кот"], "accents"),
        (["không", "là"], "case"),
        ([], "accents"),
    ],
)
def test_a_table_with_few_accents_does_without_them(words, fallback):
    assert resolved(AUTO, words).fallback == fallback


def test_only_auto_is_resolved():
    assert resolved(Spelling("NFKC", fallback="none"), ["house"]) == Spelling("NFKC", fallback="none")


def test_presets_of_the_paper_read_words_as_they_are():
    for name in ("pbos", "pbos-n", "bos"):
        assert (PRESETS[name].normalization, PRESETS[name].fallback) == ("NFC", "none")
    model = model_of("house", "houses", preset="bos")
    assert model.read_as("House") == "House"


def test_a_model_says_what_was_chosen():
    model = model_of(*LOWER)
    assert (model.spelling.normalization, model.spelling.fallback) == ("lower", "case")
    assert model.info["normalization"] == "lower"
    assert model_of(*CASED).spelling.normalization == "NFC"
    assert model_of("house", "HOUSE", normalization="NFC").words == ["house", "HOUSE"]


def test_words_that_become_equal_are_reported():
    words = [f"w{number}" for number in range(300)]
    with pytest.warns(pbos.PbosWarning, match="1 word equals an earlier one after lower normalization and is dropped"):
        model = pbos.train(([*words, "W7"], np.eye(301)), lam=0.1)
    assert model.words == words


def test_counts_are_in_the_form_of_the_table():
    model = pbos.train({"high": [1.0], "higher": [2.0]}, {"HIGH": 3, "Higher": 1}, lam=0.1)
    assert not set("HI") & set(map(chr, model.index.alphabet))


def test_segmenter_from_counts():
    segmenter = pbos.Segmenter.from_counts({"high": 3, "higher": 1}, normalization="auto")
    assert segmenter.spelling.normalization == "lower"
    assert segmenter.segment("HIGHER")[0].pieces == segmenter.segment("higher")[0].pieces


# Lower case -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "expected"),
    [("İstanbul", "istanbul"), ("ΟΔΟΣ", "οδος"), ("Straße", "straße"), ("STRAẞE", "straße"), ("E\u0301", "é")],
)
def test_lower(word, expected):
    assert lower(word) == expected
    assert normalize([word], "lower") == [expected]


def test_turkish():
    """The capital of ı is I; the table decides."""
    turkish = model_of("ısparta", "istanbul", "ilik", "kız")
    assert turkish.read_as(["ISPARTA", "İSTANBUL", "ISTANBUL", "KIZ"]) == ["ısparta", "istanbul", "istanbul", "kız"]
    assert model_of("isparta", "istanbul").read_as("ISPARTA") == "isparta"


# A table without capitals ---------------------------------------------------------------------------------------------


@given(st.text("abeholsuNIEHOUSBL", min_size=1, max_size=8))
def test_case_says_nothing_where_there_is_none(word):
    """Except inside a word, where it can separate known words."""
    read = model_of(*LOWER).read_as(word)
    assert read.replace(" ", "") == word.lower()
    assert read == word.lower() or {*read.split()} <= {*LOWER}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("HOUSE", "house"),
        ("ＨＯＵＳＥ", "house"),
        ("hoùse", "house"),
        ("\u200bho\u00aduse", "house"),
        ("ca\ufb01", "cafi"),
        ("don’t", "don't"),
        ("X–Ray", "x-ray"),
        (" house\t", "house"),
        ("#House", "house"),
        ("@berlin", "berlin"),
        ("https://www.berlin.house", "berlin.house"),
        ("http://berlin", "berlin"),
        ("iPhoneCase", "iphone case"),
        ("#BlackLivesMatter", "black lives matter"),
        ("BlackLivesXqz", "blacklivesxqz"),
        ("Black Lives", "black lives"),
        ("München", "münchen"),
        ("iphone19", "iphone19"),
        ("X-Ray", "x-ray"),
        ("Cases-X-Ray", "cases-x-ray"),
        ("привет", "привет"),
        ("प्यार", "प्यार"),
        ("#", "#"),
        (" ", " "),
        ("https://", "https://"),
    ],
)
def test_forms(word, expected):
    assert model_of(*LOWER).read_as(word) == expected


@pytest.mark.parametrize("word", ["Łódź", "Sørensen", "œuvre", "Straße", "naïveté", "ﬁancée", "Åse", "Ærø"])
def test_accents_are_left_out_where_there_are_none(word):
    expected = {"Łódź": "lodz", "Sørensen": "sorensen", "œuvre": "oeuvre", "Straße": "strasse"}
    expected |= {"naïveté": "naivete", "ﬁancée": "fiancee", "Åse": "ase", "Ærø": "aero"}
    assert without_accents(word).lower() == expected[word]
    assert model_of("lodz", "sorensen", "vieux", "strat", "fiancee").read_as(word) == expected[word]


def test_rare_accents_are_left_out_if_that_is_a_known_word():
    words = [f"{first}{second}" for first, second in itertools.product("bcdfghklmn", "aeiouxyzwv")]
    model = model_of(*words, "café", "cafe", "naive")
    assert model.spelling.fallback == "accents"
    assert model.read_as(["café", "naivé", "Naivé", "bixé"]) == ["café", "naive", "naive", "bixé"]
    assert model_of("café", "naive", "für").read_as("naivé") == "naivé"  # here accents are letters


@pytest.mark.parametrize("words", [["कि", "की", "क"], ["мой", "мои", "мо"], ["ma", "má", "là"], ["がか", "かが", "か"]])
def test_what_the_table_writes_stays(words):
    """Characters that were seen are never stripped, whether the word is known or not."""
    model = model_of(*words)
    seen = sorted(set("".join(words)))
    other = ["".join(characters) for characters in itertools.product(seen, repeat=3)]
    normalized = [unicodedata.normalize("NFC", word) for word in other]
    assert model.read_as(other) == normalized


# A table with capitals ------------------------------------------------------------------------------------------------


def cased_oracle(word):
    """The known form of a word, by looking at all words: itself, its lower case, or the first that differs in case."""
    same = [known for known in CASED if known.lower() == word.lower()]
    return next((known for known in (word, word.lower(), *same) if known in same), None)


@pytest.mark.parametrize("word", CASED)
def test_other_cases_of_known_words(word):
    model = model_of(*CASED)
    for form in (word, word.lower(), word.upper(), word.capitalize(), word.title()):
        assert model.read_as(form) == cased_oracle(form)
        assert form in model


def sum_of_segmentations(model, word):
    table, unseen = oracle.probs_of(model.index), model.spelling.unseen_char_prob
    spelled, _ = oracle.written(word, True, True)
    products = (
        math.prod(oracle.probability(piece, table, unseen) for piece in one) for one in oracle.segmentations(spelled)
    )
    return math.log(sum(products))


@pytest.mark.parametrize("word", ["Thes", "HOUSED", "NATON", "Unfriend", "UNFRIEND", "Berl", "BERL", "TheHou"])
def test_a_word_without_a_known_form_gets_the_most_probable_case(word):
    words = [*CASED, *(f"{stem}{ending}" for stem in ("house", "unfriend", "walk") for ending in ("d", "r", "ly", "s"))]
    model = model_of(*dict.fromkeys(words), string.ascii_uppercase)  # all capitals were seen
    forms = {form: sum_of_segmentations(model, form) for form in (word.lower(), word.capitalize())}
    if not word.isupper():
        forms.pop(word.capitalize())
    best = max(forms, key=forms.__getitem__)
    expected = best if forms[best] > sum_of_segmentations(model, word) + MARGIN else word
    assert model.read_as(word) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("New York", "New_York"),
        ("new york", "New_York"),
        ("berlin", "Berlin"),
        ("Müller", "muller"),
        ("THE HOUSE", "the_house"),
        ("THE-IPHONE", "the-iPhone"),
    ],
)
def test_parts_and_phrases_with_capitals(word, expected):
    assert model_of(*CASED).read_as(word) == expected


# Any table ------------------------------------------------------------------------------------------------------------

TABLES = [
    model_of(*LOWER),
    model_of(*CASED),
    model_of("a b", "#tag", "iPhone", "É", "x", "X-Ray", "http://a"),
    model_of("cafe", "tea"),
    model_of("ı", "kız", "İ", fallback="accents"),
    model_of("Straße", "ab", normalization="casefold"),
]
ODD_TEXT = st.text(
    st.sampled_from("abehosuxABEHOSUIıİéÉe\u0301ßłﬁΣσक\u093f\u094d文 \u00a0_-#@:/.'’\u200d1２"), min_size=1, max_size=10
)


@pytest.mark.parametrize("model", TABLES, ids=repr)
def test_known_words_are_read_as_they_are(model):
    assert model.read_as(model.words) == model.words


@given(ODD_TEXT | st.sampled_from(LOWER + CASED).map(str.swapcase) | st.text(min_size=1, max_size=6), st.data())
def test_reading_twice_changes_nothing(word, data):
    model = data.draw(st.sampled_from(TABLES))
    read = model.read_as(word)
    assert read
    assert model.read_as(read) == read
    assert model.read_as([word, "house", word]) == [read, model.read_as("house"), read]  # whatever the other words are


@pytest.mark.parametrize("word", ["HOUSE", "Berlin", "iPhoneCase", "New York", "HOUSED"])
@pytest.mark.parametrize("model", TABLES[:2], ids=["lower", "cased"])
def test_everything_agrees(model, word, tmp_path):
    read = model.read_as(word)
    assert (word in model) == (read in model.words)
    assert np.array_equal(model[word], model[read])
    assert np.array_equal(model.embed([word, "x"] * 600)[0], model[read])
    assert model.similarity(word, read) == pytest.approx(1)
    assert model.neighbors(word) == model.neighbors(read)
    assert [near for near, _ in model.neighbors(word, among=[word, "the", read])] == ["the"]
    assert model.segment(word, 3) == model.segment(read, 3)
    assert model.sample(word, 3, seed=1) == model.sample(read, 3, seed=1)
    assert model.weights(word) == model.weights(read)
    assert model.coverage(word) == model.coverage(read)
    assert model.lattice(word).word == read
    explanation = model.explain(word)
    assert explanation.read_as == explanation.to_dict()["read_as"] == read
    assert (f"read as: {read}" in str(explanation)) == (read != word)
    assert explanation.known == (read in model.words)
    model.save(tmp_path / "model")
    for copy in (pbos.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert copy.read_as(word) == read


def test_gensim_agrees():
    pytest.importorskip("gensim")
    from pbos.adapters.gensim import keyed_vectors

    kv, model = keyed_vectors(model_of(*CASED)), model_of(*CASED)
    assert kv.get_index("BERLIN") == model.words.index("Berlin")
    assert np.array_equal(kv["NEW YORK"], model["New_York"])


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    from pbos.adapters.torch import PbosEmbedding

    model = model_of(*CASED)
    module = PbosEmbedding(model)
    for one in (module, PbosEmbedding(module.to_model())):
        assert torch.equal(one(["HOUSE", "NEW YORK"]), one(["house", "New_York"]))


def test_exact_vectors():
    model = pbos.train({"House": [1.0, 2.0], "the": [0.0, 1.0], "a": [1.0, 1.0]}, lam=0.1, keep_targets=True)
    assert model.embed("HOUSE", exact=True).tolist() == [1, 2]


def test_models_without_the_setting_read_words_as_they_are(tmp_path):
    model_of(*LOWER).save(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    config = json.loads(file.read_text())
    del config["spelling"]["fallback"], config["checksum"]
    config["spelling"]["normalization"] = "NFC"
    file.write_text(json.dumps(config))
    old = pbos.load(tmp_path / "model")
    assert old.spelling.fallback == "none"
    assert old.read_as(["House", "iPhoneCase"]) == ["House", "iPhoneCase"]


@pytest.mark.parametrize("setting", ["normalization", "fallback"])
def test_a_stored_model_never_says_auto(setting, tmp_path):
    model_of(*LOWER).save(tmp_path / "model")
    shutil.copytree(tmp_path / "model", tmp_path / "bad")
    file = tmp_path / "bad" / "config.json"
    config = json.loads(file.read_text())
    config["spelling"][setting] = "auto"
    del config["checksum"]
    file.write_text(json.dumps(config))
    with pytest.raises(ModelError, match="bad spelling settings"):
        pbos.load(tmp_path / "bad")


def test_bad_settings():
    with pytest.raises(InputError, match="unknown fallback 'all'; choose one of: none, case, accents, auto"):
        Spelling(fallback="all")


def test_english():
    english = pbos.load()
    assert english.read_as(["House", "HOUSE", "ﬁnance", "don’t"]) == ["house", "house", "finance", "don't"]
    assert english.neighbors("HOUSE") == english.neighbors("house")
    assert english.read_as(english.words) == english.words
