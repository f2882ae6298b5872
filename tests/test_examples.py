"""The scripts of examples/, run as a user would, on small models made here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    BertTokenizerFast,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

import pbos
from pbos import cosines

EXAMPLES = Path(__file__).parents[1] / "examples"
NEW = ["unfriendliest", "covfefe"]


def run(script, *arguments, code=0):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, EXAMPLES / script, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def words():
    return [word for word in pbos.load().words[:2000] if word.isalpha() and word.isascii() and word not in NEW]


def save_bert(folder, kind, words, dims):
    """Save a small BERT with random weights, whose vocabulary has all these words; return the model."""
    folder.mkdir(exist_ok=True)
    letters = [mark + chr(code) for code in range(ord("a"), ord("z") + 1) for mark in ("", "##")]
    tokens = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *words])
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    tokenizer = BertTokenizerFast(vocab={token: row for row, token in enumerate(tokens)}, do_lower_case=True)
    torch.manual_seed(0)
    sizes = {"hidden_size": dims, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = kind(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=32, **sizes))
    tokenizer.save_pretrained(folder)
    return tokenizer, model


def test_distill_transformer(tmp_path, words):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as parts

    _, bert = save_bert(tmp_path / "bert", BertModel, words[:50], 16)
    bert.save_pretrained(tmp_path / "bert")
    transformer = parts.Transformer(str(tmp_path / "bert"))
    encoder = SentenceTransformer(modules=[transformer, parts.Pooling(16, "mean")], device="cpu")
    encoder.save(str(tmp_path / "encoder"))
    (tmp_path / "words.txt").write_text("\n".join([*words[:400], words[0]]) + "\n", encoding="utf-8")

    table = tmp_path / "table.npz"
    out = run(
        "distill_transformer.py", tmp_path / "encoder", tmp_path / "words.txt", "-o", table, "--dims", 8, "--show", 3
    )
    assert out.startswith("distilled 400 words x 8\ntrained on 360 words, 40 held out\nmean cosine")
    assert len(re.findall(r"^  \w+ \(-?\d\.\d\d\): \w+", out, re.MULTILINE)) == 3
    made = pbos.WordVectors.read(table)
    assert made.words == words[:400]

    # By hand: encode, center, project onto the right singular vectors; angles do not depend on their signs.
    full = encoder.encode(words[:400])
    centered = full - full.mean(axis=0)
    _, _, directions = np.linalg.svd(centered, full_matrices=False)
    expected = centered @ directions[:8].T
    np.testing.assert_allclose(made.vectors @ made.vectors.T, expected @ expected.T, atol=1e-4)
    assert run("distill_transformer.py", "--table", table, "--show", 3) == out.split("\n", 1)[1]


def test_distilled_words_are_close_on_real_vectors(tmp_path, shared_data):
    """A tenth of the recipe's table: held-out words are close to their own vectors only."""
    table = pbos.WordVectors.read(shared_data / "vectors" / "minilm-en", limit=10_000)
    table.write(tmp_path / "table.npz")
    out = run("distill_transformer.py", "--table", tmp_path / "table.npz")
    near, far = (float(number) for number in re.findall(r"(-?\d\.\d{3})$", out, re.MULTILINE)[:2])
    assert near > far + 0.3 and abs(far) < 0.05


def test_new_tokens_of_gpt2(tmp_path, words):
    """Byte-level BPE, output tied to input."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=9000, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    bpe.train_from_iterator([" " + " ".join(words)], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|endoftext|>")
    sizes = {"n_embd": pbos.load().dims, "n_layer": 1, "n_head": 2, "n_positions": 32}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), eos_token_id=0, bos_token_id=0, **sizes))
    check_new_tokens(tmp_path, tokenizer, model, {f"Ġ{word}": word for word in words})


def test_new_tokens_of_bert(tmp_path, words):
    """WordPiece, with output embeddings of its own."""
    tokenizer, model = save_bert(tmp_path, BertForMaskedLM, words, pbos.load().dims)
    model.config.tie_word_embeddings = False
    model.cls.predictions.decoder.weight = torch.nn.Parameter(torch.randn_like(model.cls.predictions.decoder.weight))
    check_new_tokens(tmp_path, tokenizer, model, {word: word for word in words})


def check_new_tokens(folder, tokenizer, model, word_of_token):
    """Give words the vectors of the English model, run the example, and check the new embeddings."""
    english, vocabulary = pbos.load(), tokenizer.get_vocab()
    known = {token: word for token, word in word_of_token.items() if token in vocabulary}
    assert len(known) > 1000
    with torch.no_grad():
        rows = model.get_input_embeddings().weight
        rows[[vocabulary[token] for token in known]] = torch.from_numpy(english.embed(list(known.values())))
    before = rows.detach().clone()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)

    out = run("new_tokens.py", folder, *NEW, "-o", folder / "new")
    for word in NEW:
        assert re.search(rf"^{word}: row \d+, was \S.*; near \S+, \S+", out, re.MULTILINE)
    tokenizer = AutoTokenizer.from_pretrained(folder / "new")
    changed = type(model).from_pretrained(folder / "new")
    after = changed.get_input_embeddings().weight.detach()
    assert after.shape == (len(before) + 2, english.dims)
    assert torch.equal(after[:-2], before)
    assert tokenizer.tokenize(f"the {NEW[0]}")[-1] == NEW[0]
    places = tokenizer.convert_tokens_to_ids(NEW)
    assert cosines(after[places].numpy(), english.embed(NEW))[0] > 0.3
    lengths = english.embed(list(known.values())) - english.embed(list(known.values())).mean(axis=0)
    usual = np.median(np.linalg.norm(lengths, axis=1))
    assert after[places].norm(dim=1).numpy() == pytest.approx(usual, rel=0.3)
    last = changed.get_output_embeddings().weight.detach()
    assert len(last) == len(after)
    assert torch.equal(last[places], after[places]) == (last.data_ptr() == after.data_ptr())
    assert last[places].norm(dim=1).min() > 0


def test_new_tokens_measured_on_real_vectors(tmp_path, shared_data):
    table = pbos.WordVectors.read(shared_data / "vectors" / "minilm-en", limit=4000)
    table.write(tmp_path / "table.npz")
    out = run("new_tokens.py", "--measure", tmp_path / "table.npz", "--heldout", 500, "--vocabulary", 3000)
    assert out.startswith("vocabulary of 3,000 words, 500 held out")
    ours, theirs = (float(number) for number in re.findall(r"(?:pbos|pieces) (\d\.\d{3})", out))
    assert ours > theirs > 0


def test_words_are_cut_as_wordpiece_does():
    """Against the tokenizers library, whose pieces have a mark, except the first."""
    sys.path.insert(0, str(EXAMPLES))
    import new_tokens

    vocabulary = {piece: row for row, piece in enumerate([*"abcdefgh", "ab", "abc", "cd", "defg", "gh"])}
    marked = {**vocabulary, **{f"##{piece}": 100 + row for piece, row in vocabulary.items()}, "[UNK]": 99}
    wordpiece = Tokenizer(models.WordPiece(marked, unk_token="[UNK]"))
    for word in ("abcdefgh", "abcd", "cdab", "hgfedcba", "ababcabcd"):
        expected = [piece.removeprefix("##") for piece in wordpiece.encode(word).tokens]
        assert new_tokens.pieces(word, vocabulary) == expected
    assert new_tokens.pieces("aЖb", vocabulary) == ["a", "b"]


def test_nothing_given():
    assert "error: give a model and" in run("distill_transformer.py", code=2)
