"""PyTorch: the module gives the model's vectors, and its gradients are those of words = A S."""

import io
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import nn
from torch.utils.data import DataLoader

import pbos
from pbos.adapters.torch import Bags, PbosEmbedding, init_embeddings, is_word, letters_of, style_of
from pbos.errors import InputError
from pbos.model import Model
from pbos.words.vectors import SubwordVectors

WORDS = ["unfriendliest", "naïvety", "state-of-the-art", "covfefe", "the", "日本", "e\u0301te\u0301"]
SENTENCES = [["the", "higher"], [], ["lowest"], ["the", "x-ray", "covfefe"]]
TARGETS = {"high": [1.0, 0.0], "higher": [1.0, 1.0], "lower": [0.0, 1.0], "low": [0.0, 0.5], "x-ray": [0.3, -2.0]}


@pytest.fixture(scope="module")
def model():
    return pbos.load()


@pytest.fixture(scope="module")
def small():
    return pbos.train(TARGETS, lam=1e-3)


def with_vectors(model, vectors):
    """The same model with other vectors, none of them negligible in a sum."""
    return Model(model.index, model.spelling, SubwordVectors(vectors), model._packed_words)


def weights(model, words):
    """The matrix A, found by embedding with unit vectors as subword vectors."""
    return with_vectors(model, np.eye(len(model.subword_vectors), dtype=np.float32)).embed(words)


# -- vectors -----------------------------------------------------------------------------------------------------------


def test_words_have_the_vectors_of_the_model(model):
    vectors = PbosEmbedding(model)(WORDS)
    assert vectors.dtype == torch.float32 and not vectors.requires_grad
    plain = with_vectors(model, model.subword_vectors.to_float32())
    np.testing.assert_allclose(vectors.numpy(), plain.embed(WORDS), atol=1e-6)
    lengths = np.linalg.norm(model.embed(WORDS), axis=1)
    assert (np.linalg.norm(vectors.numpy() - model.embed(WORDS), axis=1) <= 1e-3 * lengths).all()  # the model's dust
    assert not vectors[WORDS.index("日本")].any()


def test_sentences_are_padded(model):
    embedding = PbosEmbedding(model)
    vectors = embedding(SENTENCES)
    assert vectors.shape == (4, 3, model.dims)
    for sentence, rows in zip(SENTENCES, vectors, strict=True):
        assert torch.equal(rows[: len(sentence)], embedding(sentence))
        assert not rows[len(sentence) :].any()


def test_nothing_to_embed(model):
    embedding = PbosEmbedding(model)
    assert embedding([]).shape == (0, model.dims)
    assert embedding([[], []]).shape == (2, 0, model.dims)


def test_other_containers_of_words(model):
    embedding = PbosEmbedding(model)
    for words in (tuple(WORDS), np.array(WORDS), iter(WORDS)):
        assert torch.equal(embedding(words), embedding(WORDS))


@pytest.mark.parametrize(
    "words", ["higher", ["higher", ""], ["higher", 1], [["higher"], "low"], [["a"], [1]], [1], [None], 5]
)
def test_what_is_no_word_gets_one_sentence(model, words):
    with pytest.raises(InputError):
        PbosEmbedding(model)(words)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(model, dtype):
    embedding = PbosEmbedding(model).to(dtype)
    vectors = embedding(WORDS)
    assert vectors.dtype == dtype
    np.testing.assert_allclose(vectors.double().numpy(), model.embed(WORDS), atol=0.02)
    assert embedding(SENTENCES).dtype == dtype
    assert embedding.to_model()["the"].dtype == np.float32


def test_every_tensor_moves_with_the_module(model):
    """The device "meta" has no data, but rejects tensors of other devices."""
    embedding = PbosEmbedding(model).to("meta")
    assert embedding(WORDS).device.type == "meta"
    assert embedding(embedding.bagger(WORDS)).shape == (len(WORDS), model.dims)
    assert {tensor.device.type for tensor in embedding.bagger(SENTENCES).to("meta")} == {"meta"}


# -- bags --------------------------------------------------------------------------------------------------------------


def test_bags_are_made_by_the_workers_of_a_data_loader(model):
    embedding = PbosEmbedding(model)
    loader = DataLoader(SENTENCES, batch_size=3, collate_fn=embedding.bagger, num_workers=1)
    batches = list(loader)
    assert all(isinstance(bags, Bags) for bags in batches)
    assert torch.equal(embedding(batches[0]), embedding(SENTENCES[:3]))
    assert torch.equal(embedding(batches[1]), embedding(SENTENCES[3:]))


def test_a_bagger_travels_without_vectors(model):
    bagger = PbosEmbedding(model).bagger
    packed = pickle.dumps(bagger)
    assert len(packed) < model.subword_vectors.nbytes
    for one, other in zip(pickle.loads(packed)(WORDS), bagger(WORDS), strict=True):
        assert one is other is None or torch.equal(one, other)


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_are_those_of_a_matrix_product(small, sparse):
    words = ["higher", "lowest", "high-low", "higher"]
    embedding = PbosEmbedding(small, trainable=True, sparse=sparse)
    factors = torch.randn(len(words), 2, generator=torch.Generator().manual_seed(0))
    (embedding(words) * factors).sum().backward()
    gradient = embedding.bag.weight.grad
    assert gradient.is_sparse == sparse
    a = weights(small, words)
    np.testing.assert_allclose(gradient.to_dense().numpy(), a.T @ factors.numpy(), atol=1e-6)
    if sparse:
        assert set(gradient.coalesce().indices()[0].tolist()) == set(np.flatnonzero(a.any(axis=0)).tolist())


def test_a_frozen_module_has_no_gradients(small):
    head = nn.Linear(2, 1)
    embedding = PbosEmbedding(small)
    head(embedding(["higher"])).sum().backward()
    assert embedding.bag.weight.grad is None
    assert not [parameter for parameter in embedding.parameters() if parameter.requires_grad]


@pytest.mark.parametrize("sparse", [False, True])
def test_training_moves_words_and_gives_a_model(small, sparse, tmp_path):
    embedding = PbosEmbedding(small, trainable=True, sparse=sparse)
    optimizer = (torch.optim.SparseAdam if sparse else torch.optim.Adam)(embedding.parameters(), lr=0.05)
    goal = torch.tensor([[3.0, -3.0]])
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.mse_loss(embedding(["higher"]), goal).backward()
        optimizer.step()
    made = embedding.to_model()
    assert made["higher"] == pytest.approx([3.0, -3.0], abs=0.05)
    assert np.array_equal(small["higher"], pbos.train(TARGETS, lam=1e-3)["higher"])  # the model stays as it was
    untouched = ~weights(small, ["higher"]).any(axis=0)
    assert untouched.any()
    assert np.array_equal(made.subword_vectors.values[untouched], small.subword_vectors.values[untouched])
    assert made.words == small.words
    made.save(tmp_path / "model")
    assert np.array_equal(pbos.load(tmp_path / "model")["lowest"], made["lowest"])


# -- state dict --------------------------------------------------------------------------------------------------------


def by_torch(state):
    stream = io.BytesIO()
    torch.save(state, stream)
    return torch.load(io.BytesIO(stream.getvalue()), weights_only=True)


def by_safetensors(state):
    return load(save(state))


@pytest.mark.parametrize("through", [by_torch, by_safetensors])
def test_a_state_dict_has_the_vectors(small, through):
    trained, again = PbosEmbedding(small, trainable=True), PbosEmbedding(small)
    with torch.no_grad():
        trained.bag.weight.mul_(2)
    state = through(trained.state_dict())
    assert list(state) == ["bag.weight"]
    again.load_state_dict(state)
    assert torch.equal(again(["lowest"]), 2 * PbosEmbedding(small)(["lowest"]))


# -- new tokens --------------------------------------------------------------------------------------------------------

STEMS = ["high", "low", "deep", "wide", "strong", "kind", "fair", "cold", "warm", "bright", "café"]
ALL = [stem + ending for stem in STEMS for ending in ("", "er", "est", "ly")]


def byte_level(word):
    """A word as GPT-2 writes it: one visible character per byte."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in kept]
    return "".join(chr(byte) if byte in kept else chr(256 + others.index(byte)) for byte in word.encode())


def vocabulary_of(style, words):
    tokens = {"Ġ": [byte_level(" " + word) for word in words], "▁": ["▁" + word for word in words]}
    pieces = {
        "Ġ": ["<|endoftext|>", "er", "Ġ-"],
        "▁": ["<s>", "er", "▁", "▁,"],
        "##": ["[CLS]", "##er", "-"],
        "": ["."],
    }
    return {token: row for row, token in enumerate(pieces[style] + tokens.get(style, list(words)))}


@pytest.mark.parametrize("style", ["Ġ", "▁", "##", ""])
def test_new_tokens_get_what_pbos_gives_for_their_spelling(style):
    new = ["highest", "caféer", "warmly"]
    vocabulary = vocabulary_of(style, [word for word in ALL if word not in new])
    assert style_of(vocabulary) == style
    words = [word for word in ALL if word not in new]
    rng = np.random.default_rng(0)
    matrix = (rng.normal(size=(len(vocabulary), 8)) + 2).astype(np.float32)
    rows = matrix[len(vocabulary) - len(words) :]

    marked = [next(iter(reversed(vocabulary_of(style, [word])))) for word in new]
    found = init_embeddings(torch.from_numpy(matrix), marked, vocabulary, lam=0.1)
    center = rows.mean(axis=0)
    composed = pbos.train((words, rows - center), lam=0.1).embed(new)
    usual = np.median(np.linalg.norm(rows - center, axis=1))
    expected = center + composed / np.linalg.norm(composed, axis=1, keepdims=True) * usual
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-4)
    plain = init_embeddings(matrix, new, vocabulary, lam=0.1)
    assert torch.equal(plain, found)
    mixed = dict(sorted(vocabulary.items()))  # rows, not places in the dictionary, are in order of frequency
    assert torch.equal(init_embeddings(matrix, new, mixed, lam=0.1), found)


def test_new_tokens_come_in_the_type_of_the_embeddings_and_may_say_nothing():
    vocabulary = vocabulary_of("##", ALL)
    layer = nn.Embedding(len(vocabulary), 4, dtype=torch.bfloat16)
    found = init_embeddings(layer, ["warmish", "ЖЖ"], vocabulary, lam=0.1)
    assert found.dtype == torch.bfloat16 and not found.requires_grad
    words = layer.weight.detach().float()[3:]
    torch.testing.assert_close(found[1].float(), words.mean(0), atol=0.02, rtol=0)


def test_new_tokens_of_a_whole_language_model():
    vocabulary = vocabulary_of("Ġ", ALL)
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=len(vocabulary), n_positions=8, n_embd=4, n_layer=1, n_head=1)
    language_model = transformers.GPT2LMHeadModel(config)
    found = init_embeddings(language_model, ["Ġwarmish"], vocabulary, lam=0.1)
    assert torch.equal(found, init_embeddings(language_model.transformer.wte.weight, ["warmish"], vocabulary, lam=0.1))


def test_new_tokens_from_a_model_of_the_same_space(model):
    found = init_embeddings(model, ["Ġunfriendliest", "Ġcovfefe"])
    assert np.array_equal(found.numpy(), model.embed(["unfriendliest", "covfefe"]))
    pieces = {"un": 0, "##friend": 1}
    assert np.array_equal(init_embeddings(model, ["##liest"], pieces).numpy(), model.embed(["liest"]))


def test_bad_vocabularies_get_one_sentence(model):
    matrix = torch.zeros(3, 4)
    with pytest.raises(InputError, match="no token that is a whole word"):
        init_embeddings(matrix, ["high"], {"<s>": 0, "-": 1})
    with pytest.raises(InputError, match="names row 7, but there are 3 embeddings"):
        init_embeddings(matrix, ["high"], {"low": 7})
    with pytest.raises(InputError, match="pass vocabulary=tokenizer"):
        init_embeddings(matrix, ["high"])
    with pytest.raises(InputError, match="one row per token, got shape"):
        init_embeddings(matrix[0], ["high"], {"low": 0})
    with pytest.raises(InputError, match="lam: settings need a language model"):
        init_embeddings(model, ["high"], lam=0.1)


def test_tokens_as_people_write_them():
    assert letters_of(byte_level(" Straße"), "Ġ") == "Straße"
    assert letters_of(byte_level(" 日本"), "Ġ") == "日本"
    assert letters_of("Straße", "Ġ") == "Straße"  # added by hand
    assert letters_of("▁hello", "▁") == "hello"
    assert letters_of("▁", "▁") == "▁"
    assert not is_word("[unused1]", "##") and is_word("don't", "##") and not is_word("##er", "##")


def test_word_vectors_from_tensors():
    rows = torch.ones(1, 2)
    np.testing.assert_array_equal(pbos.WordVectors(["a"], rows).vectors, [[1, 1]])
    for tensor in (nn.Embedding(1, 2).weight, rows.bfloat16()):  # which NumPy cannot take
        with pytest.raises(InputError, match="the vectors cannot become a NumPy array"):
            pbos.WordVectors(["a"], tensor)
