"""sentence-transformers: the module in a real SentenceTransformer, against the vectorizer and the formula."""

import json
import pickle

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

import pbos
from pbos import InputError, ModelError
from pbos.adapters.sentence_transformers import PbosSentences
from pbos.adapters.sklearn import PbosVectorizer

TEXTS = ["The king was unfriendly, the unfriendliest of all.", "A zoomable map", "", "ЖЖЖ", "the the the"]
COUNTS = {"the": 500.0, "of": 200.0, "The": 100.0, "king": 1.0, "a": 199.0}


@pytest.fixture(scope="module")
def small(small_vectors):
    return pbos.train((small_vectors.words[:300], small_vectors.vectors[:300]))


def test_vectors_by_the_formula(small):
    """Smooth inverse frequency with given counts: a / (a + p(w)), summed and divided by the number of words."""
    model = SentenceTransformer(modules=[PbosSentences(PbosVectorizer(small, weighting="sif", counts=COUNTS))])
    found = model.encode(["The king of a", "the covfefe king", "the"])
    p = {"the": 0.6, "of": 0.2, "king": 0.001, "a": 0.199, "covfefe": 0}
    for text, vector in zip(("the king of a", "the covfefe king", "the"), found, strict=True):
        words = text.split()
        expected = sum(1e-3 / (1e-3 + p[word]) * small[word].astype(float) for word in words) / len(words)
        np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-6)
    assert model.get_embedding_dimension() == small.dims


SETTINGS = [
    {},
    {"weighting": "sif"},
    {"weighting": "sif", "counts": COUNTS, "a": 1e-2, "remove_component": True},
    {"lowercase": False, "token_pattern": r"\w\w+"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_saved_model_gives_the_same_vectors(small, settings, tmp_path):
    vectorizer = PbosVectorizer(small, **settings).fit(TEXTS)
    model = SentenceTransformer(modules=[PbosSentences(vectorizer), Normalize()])
    lengths = np.linalg.norm(vectorizer.transform(TEXTS), axis=1, keepdims=True)
    expected = vectorizer.transform(TEXTS) / np.where(lengths, lengths, 1)
    np.testing.assert_allclose(model.encode(TEXTS, batch_size=2), expected, atol=1e-6)
    for _ in range(2):  # the second time over the first
        model.save(str(tmp_path / "saved"))
    loaded = SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True)
    assert np.array_equal(loaded.encode(TEXTS), model.encode(TEXTS))
    assert np.array_equal(pickle.loads(pickle.dumps(model)).encode(TEXTS), model.encode(TEXTS))
    assert len(pbos.load(tmp_path / "saved" / "0_PbosSentences" / "model")) == len(small)


def test_on_the_hub(hub, small):
    model = SentenceTransformer(modules=[PbosSentences(PbosVectorizer(small))])
    model.push_to_hub("owner/name")
    loaded = SentenceTransformer("owner/name", trust_remote_code=True)
    assert np.array_equal(loaded.encode(TEXTS), model.encode(TEXTS))
    assert len(pbos.load("hf://owner/name/0_PbosSentences/model")) == len(small)


def test_what_encode_can_do():
    model = SentenceTransformer(modules=[PbosSentences()])
    vectors = PbosVectorizer().fit_transform(["query: a king", "a queen"])
    assert np.array_equal(model.encode("a king", prompt="query: "), vectors[0])
    assert np.array_equal(model.encode(["a queen"], convert_to_tensor=True).numpy(), vectors[1:])
    assert np.array_equal(model[0].tokenize(["a queen"])["sentence_embedding"].numpy(), vectors[1:])  # before version 6
    similarity = model.similarity(model.encode(["a king"]), model.encode(["a queen", "a banana"]))[0]
    assert similarity[0] > similarity[1]


def test_what_cannot_be_used(small, tmp_path):
    for settings in ({"weighting": "sif"}, {"remove_component": True}):
        with pytest.raises(InputError, match="there are no texts to learn frequencies or the component from; pass"):
            PbosSentences(PbosVectorizer(small, **settings))
    with pytest.raises(InputError, match="a tokenizer that is a function cannot be saved; use token_pattern"):
        PbosSentences(PbosVectorizer(small, tokenizer=str.split)).save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", [None, b"{", b"[]", {"settings": {"volume": 11}}, {"component": "x"}])
def test_damaged_settings(small, tmp_path, damage):
    PbosSentences(PbosVectorizer(small)).save(tmp_path)
    file = tmp_path / "sentences.json"
    if isinstance(damage, dict):
        damage = json.dumps({**json.loads(file.read_bytes()), **damage}).encode()
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)
    with pytest.raises(ModelError, match=r"sentences.json cannot be read \(.*\); get a fresh copy of it$"):
        PbosSentences.load(tmp_path)
