"""spaCy: vectors from pbos do what spaCy's own table does, and more words have one."""

import copy
import importlib
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.util import load_config
from spacy.vectors import Vectors

import pbos
from pbos.adapters.spacy import PbosVectors, add_vectors
from pbos.errors import InputError, MissingExtraError, ModelError, PbosWarning

ROOT = Path(__file__).parents[2]
TEXT = "The unfriendliest covfefe of all, naïvety's sunniest teapotlike ЖЖЖ . \n\n 1,000 x-ray nsubj"
UNKNOWN = {"ЖЖЖ", ".", ",", "-", "\n\n "}  # no subword of the included model covers any letter of these


ENGLISH = pbos.load()


@pytest.fixture(scope="module")
def small():
    """A model of 2,000 English words with their given vectors."""
    words = ENGLISH.words[:2000]
    return pbos.train((words, ENGLISH.embed(words)), keep_targets=True, progress=False)


def with_table(words, vectors):
    """A pipeline with spaCy's own table of the same vectors."""
    nlp = spacy.blank("en")
    nlp.vocab.vectors = Vectors(strings=nlp.vocab.strings, data=vectors, keys=words)
    return nlp


def from_config(**settings):
    return spacy.blank("en", config={"nlp": {"vectors": {"@vectors": "pbos.Vectors.v1", **settings}}})


# -- the same as spaCy's own table -------------------------------------------------------------------------------------


def test_tokens_spans_and_docs_have_the_vectors_a_table_of_the_same_would_give():
    nlp = add_vectors(spacy.blank("en"))
    doc = nlp(TEXT)
    words = sorted({token.text for token in doc} - UNKNOWN)
    expected = with_table(words, ENGLISH.embed(words))(TEXT)
    assert len(doc) == len(expected) > 12
    for token, other in zip(doc, expected, strict=True):
        assert token.has_vector == other.has_vector == (token.text not in UNKNOWN), token.text
        assert token.is_oov == other.is_oov
        np.testing.assert_allclose(token.vector, other.vector, atol=1e-6)
        np.testing.assert_allclose(token.lex.vector, other.lex.vector, atol=1e-6)
        assert token.vector_norm == pytest.approx(other.vector_norm, abs=1e-5)
        if token.has_vector:
            assert token.similarity(doc[1]) == pytest.approx(other.similarity(expected[1]), abs=1e-5)
    np.testing.assert_allclose(doc.vector, expected.vector, atol=1e-6)
    np.testing.assert_allclose(doc[2:5].vector, expected[2:5].vector, atol=1e-6)
    assert doc[2:5].similarity(doc) == pytest.approx(expected[2:5].similarity(expected), abs=1e-5)
    short = "A friendly teapot"
    assert doc.similarity(nlp(short)) == pytest.approx(
        float(np.dot(doc.vector, nlp(short).vector) / np.linalg.norm(doc.vector) / np.linalg.norm(nlp(short).vector)),
        abs=1e-5,
    )


@pytest.mark.parametrize("n", [1, 7])
def test_most_similar_finds_what_a_table_of_the_training_words_finds(small, n):
    nlp = add_vectors(spacy.blank("en"), small)
    queries = small.embed(["unfriendly", "government", "teapot", "12", "the"])
    table = with_table(small.words, small.embed(small.words)).vocab.vectors
    expected = table.most_similar(queries.copy(), n=n)
    before = queries.copy()
    for batch_size in (1024, 2):
        keys, rows, scores = found = nlp.vocab.vectors.most_similar(queries, n=n, batch_size=batch_size)
        assert [array.dtype for array in found] == [array.dtype for array in expected]
        np.testing.assert_array_equal(keys, expected[0])
        np.testing.assert_array_equal(rows, expected[1])
        np.testing.assert_allclose(scores, expected[2], atol=2e-4)
    assert [nlp.vocab.strings[key] for key in keys[:, 0]] == [small.words[row] for row in rows[:, 0]]
    unsorted_keys, _, _ = nlp.vocab.vectors.most_similar(queries, n=n, sort=False)
    assert [set(line) for line in unsorted_keys.tolist()] == [set(line) for line in keys.tolist()]
    np.testing.assert_array_equal(queries, before)  # spaCy's own scales them in place


def test_most_similar_of_more_words_than_there_are(small):
    with pytest.raises(InputError, match="between 1 and the number of training words, 2000; got 2001"):
        PbosVectors(small).most_similar(small.embed(["a"]), n=2001)


def test_rows_and_keys_are_those_of_a_table(small):
    ours, table = PbosVectors(small), with_table(small.words, small.embed(small.words)).vocab.vectors
    assert ours.shape == table.shape
    assert (len(ours), ours.n_keys, ours.size) == (len(table), table.n_keys, table.size)
    assert list(ours.keys()) == list(table.keys())


# -- which words have one ----------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_a_word_has_a_vector_if_any_letter_is_covered(word):
    vectors = PbosVectors(ENGLISH)
    (vector,) = vectors.get_batch([word])
    if word and ENGLISH.coverage(word) > 0:
        np.testing.assert_allclose(vector, ENGLISH.embed([word])[0], atol=1e-6)
        np.testing.assert_allclose(vectors[word], vector, atol=1e-6)
        assert word in vectors
    else:
        assert not vector.any()
        assert word not in vectors
        with pytest.raises(KeyError):
            vectors[word]


def test_keys_of_words_nobody_has_seen():
    vectors = PbosVectors()
    assert 12345678901234567 not in vectors
    for ask in (vectors.__getitem__, lambda key: vectors.get_batch([key])):
        with pytest.raises(KeyError, match="12345678901234567"):
            ask(12345678901234567)


def test_a_batch_of_keys_is_what_the_model_embeds():
    nlp = add_vectors(spacy.blank("en"))
    doc = nlp("unfriendliest covfefe unfriendliest")
    for keys in (doc.to_array("ORTH"), [token.orth for token in doc], [token.text for token in doc]):
        batch = nlp.vocab.vectors.get_batch(keys)
        assert batch.dtype == np.float32
        np.testing.assert_allclose(batch, ENGLISH.embed([token.text for token in doc]), atol=1e-6)
    assert nlp.vocab.vectors.get_batch([]).shape == (0, 160)


def test_attr_chooses_what_is_looked_up():
    lower = add_vectors(spacy.blank("en"), attr="LOWER")("The TEAPOT")
    np.testing.assert_allclose([token.vector for token in lower], ENGLISH.embed(["the", "teapot"]), atol=1e-6)
    plain = add_vectors(spacy.blank("en"))("The TEAPOT")
    np.testing.assert_allclose([token.vector for token in plain], ENGLISH.embed(["The", "TEAPOT"]), atol=1e-6)
    assert from_config(attr="lower")("TEAPOT").similarity(lower[1:]) == pytest.approx(1)
    with pytest.raises(InputError, match="unknown attr 'TAG'; choose one of: ORTH, LOWER, NORM"):
        add_vectors(spacy.blank("en"), attr="TAG")


def test_exact_gives_training_words_the_vectors_they_were_given(small):
    nlp = add_vectors(spacy.blank("en"), small, exact=True)
    known, unseen = small.words[:300:7], ["unfriendliest", "teapotlike"]
    assert not set(unseen) & set(small.words)
    np.testing.assert_allclose(nlp.vocab.vectors.get_batch(known), ENGLISH.embed(known), atol=1e-6)
    np.testing.assert_allclose(nlp.vocab.get_vector(known[3]), ENGLISH[known[3]], atol=1e-6)
    np.testing.assert_allclose(nlp.vocab.vectors.get_batch(unseen), small.embed(unseen), atol=1e-6)
    keys, _, scores = nlp.vocab.vectors.most_similar(ENGLISH.embed(known))
    assert [nlp.vocab.strings[key] for key in keys[:, 0]] == known
    np.testing.assert_allclose(scores, 1, atol=1e-3)
    with pytest.raises(InputError, match="keep_targets=True"):
        add_vectors(spacy.blank("en"), exact=True)


# -- saving, loading, copying ------------------------------------------------------------------------------------------


def test_a_saved_pipeline_holds_the_model_and_needs_no_other(small, tmp_path):
    small.save(tmp_path / "model")
    nlp = from_config(model=str(tmp_path / "model"), exact=True)
    expected = nlp(TEXT).vector
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "model")
    (tmp_path / "pipeline").rename(tmp_path / "moved")
    loaded = spacy.load(tmp_path / "moved")
    np.testing.assert_array_equal(loaded(TEXT).vector, expected)
    assert loaded.vocab.vectors == nlp.vocab.vectors
    assert loaded.meta["vectors"] == {"width": 160, "vectors": 2000, "keys": 2000, "name": "pbos", "mode": "pbos"}
    loaded.to_disk(tmp_path / "moved")  # over itself
    np.testing.assert_array_equal(spacy.load(tmp_path / "moved")(TEXT).vector, expected)


@pytest.mark.parametrize("kind", ["model", "path", "included"])
def test_add_vectors_makes_pipelines_that_can_be_saved(small, tmp_path, kind):
    if kind == "path":
        small.save(tmp_path / "model")
    model = {"model": small, "path": tmp_path / "model", "included": None}[kind]
    nlp = spacy.blank("en")
    assert add_vectors(nlp, model, attr="LOWER") is nlp
    expected = (ENGLISH if kind == "included" else small)["teapotlike"]
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "model", ignore_errors=True)
    for again in (
        spacy.load(tmp_path / "pipeline"),
        from_config(attr="LOWER").from_disk(tmp_path / "pipeline"),
        from_config(attr="LOWER").from_bytes(nlp.to_bytes()),
    ):
        np.testing.assert_array_equal(again("Teapotlike").vector, expected)


def test_bytes_without_a_model_change_nothing(small):
    vectors = PbosVectors(small)
    assert vectors.from_bytes(Vectors(shape=(1, 2)).to_bytes()) is vectors
    assert vectors.model is small


def test_pickled_pipelines_know_words_that_come_later(small):
    nlp = add_vectors(spacy.blank("en"), small, attr="LOWER", exact=True)
    for generation in range(3):
        nlp = pickle.loads(pickle.dumps(nlp))
        word = f"Teapotlike{'ness' * generation}"
        np.testing.assert_allclose(nlp(word)[0].vector, small[word.lower()], atol=1e-6)
    alone = pickle.loads(pickle.dumps(nlp.vocab.vectors))
    assert alone == nlp.vocab.vectors
    other = spacy.blank("en")
    other.vocab.vectors = alone
    np.testing.assert_allclose(other("Unfriendlier")[0].vector, small["unfriendlier"], atol=1e-6)


@Language.component("keeps_vectors")
def keeps_vectors(doc):
    doc.tensor = np.stack([token.vector for token in doc])
    return doc


def test_several_processes():
    nlp = add_vectors(spacy.blank("en"))
    nlp.add_pipe("keeps_vectors")
    texts = [f"teapot{number} unfriendliest" for number in range(6)]
    for text, doc in zip(texts, nlp.pipe(texts, n_process=2, batch_size=2), strict=True):
        np.testing.assert_allclose(doc.tensor, ENGLISH.embed(text.split()), atol=1e-6)


def test_a_model_that_is_not_there(tmp_path):
    nlp = from_config(model=str(tmp_path / "nowhere"))
    doc = nlp("a teapot")
    for ask in (lambda: doc.vector, lambda: doc[0].vector, lambda: doc.has_vector, lambda: nlp.to_disk(tmp_path / "x")):
        with pytest.raises(ModelError, match=r"no model folder at .*nowhere; set model in \[nlp.vectors\]"):
            ask()
    with pytest.raises(ModelError, match="nowhere"):
        add_vectors(spacy.blank("en"), tmp_path / "nowhere")


# -- among other pipelines ---------------------------------------------------------------------------------------------


def test_components_from_other_pipelines_leave_the_vectors_alone(small, tmp_path):
    other = with_table(["teapot"], np.ones((1, 3), np.float32))
    other.add_pipe("sentencizer")
    other.to_disk(tmp_path / "other")
    config = {
        "nlp": {"lang": "en", "pipeline": ["sentencizer"], "vectors": {"@vectors": "pbos.Vectors.v1"}},
        "components": {"sentencizer": {"source": str(tmp_path / "other")}},
    }
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    np.testing.assert_array_equal(nlp("teapotlike").vector, ENGLISH["teapotlike"])

    one, same, another = (add_vectors(spacy.blank("en"), model) for model in (small, copy.deepcopy(small), ENGLISH))
    one.add_pipe("sentencizer")
    same.add_pipe("sentencizer", source=one)  # warns where vectors differ
    with pytest.warns(UserWarning, match="W113"):
        another.add_pipe("sentencizer", source=one)


def test_initialize_takes_the_vectors_of_a_saved_pipeline(small, tmp_path, caplog):
    add_vectors(spacy.blank("en"), small).to_disk(tmp_path / "vectors")
    nlp = from_config()
    nlp.config["initialize"]["vectors"] = str(tmp_path / "vectors")
    nlp("some words first")
    nlp.initialize()
    np.testing.assert_array_equal(nlp("teapotlike").vector, small["teapotlike"])
    assert "W112" not in caplog.text  # spaCy's warning of a pipeline without vectors


def test_vectors_cannot_be_set():
    nlp = add_vectors(spacy.blank("en"))
    before = nlp.vocab.get_vector("teapot")
    with pytest.warns(PbosWarning, match="the vector of 'teapot' was not set"):
        nlp.vocab.set_vector("teapot", np.ones(160, np.float32))
    np.testing.assert_array_equal(nlp.vocab.get_vector("teapot"), before)


def test_merged_tokens_are_spelled_anew():
    nlp = add_vectors(spacy.blank("en"))
    doc = nlp("ЖЖЖ ЩЩЩ new york")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
        retokenizer.merge(doc[2:])
    assert not doc[0].has_vector
    np.testing.assert_array_equal(doc[1].vector, ENGLISH["new york"])


def test_config_files_need_no_import(tmp_path):
    """The entry point, as an installed pbos has it, leads spaCy to the vectors."""
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if ".dist-info/" in name])
    code = (
        "import spacy;"
        "nlp = spacy.blank('en', config={'nlp': {'vectors': {'@vectors': 'pbos.Vectors.v1'}}});"
        "print(nlp('teapotlike').vector.shape)"
    )
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "(160,)\n", done.stderr


def test_without_spacy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.delitem(sys.modules, "pbos.adapters.spacy")
    with pytest.raises(MissingExtraError, match=r'pip install "pbos\[spacy\]"'):
        importlib.import_module("pbos.adapters.spacy")


# -- training ----------------------------------------------------------------------------------------------------------

SENTENCES = [
    [("The", "DET"), ("cat", "NOUN"), ("sleeps", "VERB")],
    [("A", "DET"), ("dog", "NOUN"), ("barked", "VERB"), (".", "PUNCT")],
    [("The", "DET"), ("friendly", "ADJ"), ("teapot", "NOUN"), ("whistles", "VERB")],
] * 8


@pytest.fixture
def example(monkeypatch):
    """The script of examples/spacy_tagger."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "spacy_tagger"))
    return importlib.import_module("tagger")


@pytest.fixture
def inputs(example, tmp_path):
    words = pbos.WordVectors(ENGLISH.words[:2000], ENGLISH.embed(ENGLISH.words[:2000]))
    example.write_inputs(tmp_path, "en", {"train": SENTENCES, "dev": SENTENCES[:3]}, words)
    return tmp_path


def test_the_example_trains_and_its_pipelines_carry_their_vectors(example, inputs):
    expected_vectors = {"no vectors": None, "table": None, "pbos": pbos.load(inputs / "model")["teapots"]}
    for row, expected in expected_vectors.items():
        config, settings = example.ROWS[row]
        nlp = example.trained(inputs, config, {**settings, "training.max_steps": 20, "training.eval_frequency": 10})
        known = {word.lower() for sentence in SENTENCES for word, _ in sentence}
        right, unseen = example.accuracies(nlp, [*SENTENCES[:3], [("Dogs", "NOUN"), ("sleep", "VERB")]], known)
        assert right > 60, row  # 3 in 11 are nouns
        assert unseen in (0, 50, 100)
        assert nlp("teapots")[0].has_vector == (expected is not None)
    shutil.rmtree(inputs / "model")
    nlp = spacy.load(inputs / "trained" / "model-best")  # that of the last row
    np.testing.assert_array_equal(nlp("TEAPOTS")[0].vector, expected)
    (before,) = [token.tag_ for token in nlp("teapot")]
    assert [token.tag_ for token in pickle.loads(pickle.dumps(nlp))("teapot")] == [before]
    with pytest.warns(PbosWarning, match="tagger in this pipeline learned from other vectors"):
        add_vectors(nlp, ENGLISH)


def test_training_without_the_model_says_so(example, inputs):
    settings = {"paths.train": str(inputs / "train.spacy"), "paths.dev": str(inputs / "dev.spacy")}
    settings["nlp.vectors.model"] = str(inputs / "nowhere")
    with pytest.raises(ModelError, match=r"no model folder at .*nowhere"):
        init_nlp(load_config(ROOT / "examples" / "spacy_tagger" / "pbos.cfg", overrides=settings))


def test_config_files_differ_in_their_vectors_only(example):
    configs = {name: load_config(ROOT / "examples" / "spacy_tagger" / name) for name, _ in example.ROWS.values()}
    for config in configs.values():
        config["nlp"].pop("vectors", None)
        config.pop("initialize", None)
        config["paths"].pop("vectors", None)
        del config["components"]["tagger"]["model"]["tok2vec"]["embed"]["include_static_vectors"]
    first, *others = configs.values()
    assert len(others) == 2
    assert all(other == first for other in others)
