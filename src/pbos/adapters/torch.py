"""PyTorch (extra `torch`): a module that embeds words, which can be trained, and embeddings for new tokens.

Training does not change the weights of a word's subwords, so the vector of a word is a weighted sum of rows: PyTorch's
`EmbeddingBag`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pbos.errors import InputError, MissingExtraError
from pbos.model import Model
from pbos.training.train import train
from pbos.words.arrays import unit_rows
from pbos.words.subwords import Subwords
from pbos.words.text import as_words, pack_strings
from pbos.words.vectors import SubwordVectors

try:
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pad_sequence
except ImportError:
    raise MissingExtraError("using pbos in PyTorch", "torch") from None

Tensor = Any  # torch.Tensor; mypy does not read PyTorch here
Words = Iterable[str] | Iterable[Iterable[str]]  # or sentences


class Bags(NamedTuple):
    """Words as PyTorch reads them: word i is the rows ``indices[offsets[i]:offsets[i + 1]]`` and their weights."""

    indices: Tensor  # int64 (n_weights,)
    offsets: Tensor  # int64 (n_words + 1,)
    weights: Tensor  # float32 (n_weights,)
    lengths: Tensor | None  # int64 (n_sentences,): the number of words of each sentence; None for plain words

    def to(self, *args: Any, **kwargs: Any) -> Bags:
        """Move to a device, as `Tensor.to` does."""
        return Bags(*(None if tensor is None else tensor.to(*args, **kwargs) for tensor in self))


def bags_of(subwords: Subwords, words: Words) -> Bags:
    """Return the bags of words, or of sentences that are lists of words."""
    lengths = None
    if isinstance(words, Iterable) and not isinstance(words, str) and not hasattr(words, "tolist"):
        words = list(words)
        if words and isinstance(words[0], Iterable) and not isinstance(words[0], str):
            sentences = [as_words(sentence) for sentence in words]
            lengths = torch.tensor([len(sentence) for sentence in sentences])
            words = [word for sentence in sentences for word in sentence]
    weights = subwords.weights(as_words(words))
    arrays = weights.indices.astype(np.int64), weights.indptr, weights.data
    indices, offsets, data = map(torch.from_numpy, arrays)
    return Bags(indices, offsets, data, lengths)


class PbosEmbedding(nn.Module):  # type: ignore[misc]
    """Embeds words with a model's subword vectors, which can be trained further.

    The state dict has the vectors only; to keep what was trained, save `to_model()`.

    Attributes:
        bagger: Makes bags of words, which the module accepts too; can be the `collate_fn` of a DataLoader, as it has no
            vectors to copy.
        bag: The `torch.nn.EmbeddingBag` with the subword vectors.

    >>> import pbos
    >>> embedding = PbosEmbedding(pbos.load())
    >>> embedding(["unfriendliest", "covfefe"]).shape
    torch.Size([2, 160])
    >>> embedding([["one", "sentence"], ["another", "one", "here"]]).shape
    torch.Size([2, 3, 160])
    """

    def __init__(self, model: Model, *, trainable: bool = False, sparse: bool = False) -> None:
        """Copy a model's subword vectors.

        Args:
            model: The model.
            trainable: Whether the subword vectors can be trained.
            sparse: Whether gradients are sparse, with the rows of the current words only; for `torch.optim.SparseAdam`,
                `Adagrad` and `SGD`.
        """
        super().__init__()
        self.model = model
        self.bagger = partial(bags_of, model.subwords)
        vectors = torch.from_numpy(np.array(model.subword_vectors.to_float32()))
        self.bag = nn.EmbeddingBag.from_pretrained(
            vectors, freeze=not trainable, mode="sum", sparse=sparse, include_last_offset=True
        )

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return int(self.bag.embedding_dim)

    def forward(self, words: Words | Bags) -> Tensor:
        """Return the vectors of words, (n_words, dims), or of sentences, (n_sentences, longest, dims), zero-padded.

        A word without any known subword gets zeros.

        Args:
            words: Words, or sentences that are lists of words, or the bags of either.
        """
        weight = self.bag.weight
        bags = (words if isinstance(words, Bags) else self.bagger(words)).to(weight.device)
        vectors = self.bag(bags.indices, bags.offsets, per_sample_weights=bags.weights.to(weight.dtype))
        if bags.lengths is None:
            return vectors
        return pad_sequence(vectors.split(bags.lengths.tolist()), batch_first=True)

    def to_model(self) -> Model:
        """Return a model with the current vectors."""
        vectors = SubwordVectors.of(self.bag.weight.detach().float().cpu().numpy().copy())
        old, info = self.model, {**self.model.info, "from_torch": True}
        return Model(old.index, old.spelling, vectors, pack_strings(old.words), info=info)


# -- new tokens of a language model ------------------------------------------------------------------------------------

STARTS = ("Ġ", "▁")  # marks at the start of a word: byte-level BPE, SentencePiece
MARKS = (*STARTS, "##")  # the last one, of WordPiece, is inside a word
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # byte-level BPE writes them as they are
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]  # and these from U+0100 on
BYTE_OF = {chr(byte): byte for byte in PRINTABLE} | {chr(256 + place): byte for place, byte in enumerate(OTHERS)}


def init_embeddings(
    model: Model | Any, tokens: Iterable[str], vocabulary: Mapping[str, int] | None = None, **settings: Any
) -> Tensor:
    """Return embeddings for new tokens of a language model, composed from their spelling.

    A pbos model is trained on the embeddings of the vocabulary's whole words, minus their mean. A new embedding is the
    mean plus the token's vector, scaled to the median length of existing words; a token without any known subword gets
    the mean. Marks are removed: Ġ (byte-level BPE), ▁ (SentencePiece) and ## (WordPiece).

    Args:
        model: A language model with `get_input_embeddings()`, as in transformers, or a layer with `weight`, or the
            matrix. Or a pbos model of the same space, whose vectors are returned.
        tokens: The new tokens, with marks or without.
        vocabulary: The row of each token, `tokenizer.get_vocab()`; not needed for a pbos model.
        **settings: For `pbos.train`.

    Returns:
        (n_tokens, dims), with the type and device of the existing embeddings.
    """
    tokens = as_words(tokens)
    if isinstance(model, Model):
        if settings:
            raise InputError(f"{', '.join(settings)}: settings need a language model; a pbos model is already trained")
        style = style_of(tokens if vocabulary is None else vocabulary)
        return torch.from_numpy(model.embed([letters_of(token, style) for token in tokens]))
    if vocabulary is None:
        raise InputError("a language model needs its vocabulary; pass vocabulary=tokenizer.get_vocab()")
    layer = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else model
    matrix, style = torch.as_tensor(getattr(layer, "weight", layer)).detach(), style_of(vocabulary)
    if matrix.ndim != 2:
        raise InputError(f"expected a matrix with one row per token, got shape {tuple(matrix.shape)}")
    rows: dict[str, int] = {}
    for token, row in sorted(vocabulary.items(), key=lambda pair: pair[1]):  # most have frequent tokens first
        if is_word(token, style):
            rows.setdefault(letters_of(token, style), row)
    if not rows:
        raise InputError("the vocabulary has no token that is a whole word, so there is nothing to train on")
    if max(rows.values()) >= len(matrix) or min(rows.values()) < 0:
        raise InputError(f"the vocabulary names row {max(rows.values())}, but there are {len(matrix)} embeddings")
    words, known = list(rows), matrix[list(rows.values())].float().cpu().numpy()
    center = known.mean(axis=0)
    away = known - center
    found = train((words, away), **{"progress": False, **settings}).embed(letters_of(token, style) for token in tokens)
    usual = np.median(np.linalg.norm(away, axis=1))
    return torch.from_numpy(center + usual * unit_rows(found)).to(matrix)


def style_of(vocabulary: Iterable[str]) -> str:
    """Return the mark that a vocabulary uses: "Ġ", "▁", "##", or "" for none."""
    counts = Counter(mark for token in vocabulary for mark in MARKS if token.startswith(mark))
    return max(MARKS, key=lambda mark: counts[mark]) if counts else ""


def is_word(token: str, style: str) -> bool:
    """Return whether a token can be a whole word: it starts one, and is not a special token or punctuation."""
    begins = token.startswith(style) if style in STARTS else not (style and token.startswith(style))
    letters = letters_of(token, style)
    return begins and bool(letters) and all(unicodedata.category(c)[0] in "LNM" for c in (letters[0], letters[-1]))


def letters_of(token: str, style: str) -> str:
    """Return the text of a token, without marks.

    >>> letters_of("Ġcaf\u00c3\u00a9", "Ġ"), letters_of("##ly", "##")
    ('café', 'ly')
    """
    if style == "Ġ":
        with suppress(KeyError, UnicodeDecodeError):  # otherwise it was added by hand
            token = bytes(BYTE_OF[character] for character in token).decode()
    return token.removeprefix(style).strip() or token
