"""pbos in PyTorch (extra `torch`): a module that embeds words and can be trained on, and rows for new tokens.

The weights of a word's subwords do not change in training; so a word is a bag of subwords, and its vector a weighted
sum of rows: PyTorch's `EmbeddingBag`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos import storage
from pbos.errors import InputError, MissingExtraError, ModelError
from pbos.kernels import lattice
from pbos.kernels.trie import IndexArrays
from pbos.model import Model
from pbos.spelling import Spelling
from pbos.subword_vectors import SubwordVectors
from pbos.subwords import SubwordIndex
from pbos.text import PackedStrings, as_words
from pbos.training import train

try:
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pad_sequence
except ImportError:
    raise MissingExtraError("pbos in PyTorch", "torch") from None

Tensor = Any  # of PyTorch


class Bags(NamedTuple):
    """Words as PyTorch takes them: word i is the rows ``indices[offsets[i]:offsets[i + 1]]`` with as many weights."""

    indices: Tensor  # int64 (n_weights,)
    offsets: Tensor  # int64 (n_words + 1,)
    weights: Tensor  # float32 (n_weights,)
    lengths: Tensor | None  # int64 (n_sentences,): how many of the words each sentence has; None for plain words

    def to(self, *args: Any, **kwargs: Any) -> Bags:
        """Move to a device, as `Tensor.to` does."""
        return Bags(*(None if tensor is None else tensor.to(*args, **kwargs) for tensor in self))


class Bagger:
    """Makes bags of words. It knows subwords and weights but no vectors, so that data loaders can take it along.

    >>> import pbos
    >>> bags = Bagger.of(pbos.load())(["higher", "x-ray"])
    >>> len(bags.offsets)
    3
    """

    def __init__(self, index: SubwordIndex, spelling: Spelling) -> None:
        self.index, self.spelling = index, spelling

    @classmethod
    def of(cls, model: Model) -> Bagger:
        """Return the one of a model."""
        return cls(model.index, model.spelling)

    def __call__(self, words: Iterable[str] | Iterable[Iterable[str]]) -> Bags:
        """Return the bags of words, or of sentences that are lists of words."""
        lengths = None
        if not hasattr(words, "tolist") and not isinstance(words, str):
            words = list(words)
            if words and not isinstance(words[0], str):
                sentences = [as_words(sentence) for sentence in words]
                lengths = torch.tensor([len(sentence) for sentence in sentences])
                words = [word for sentence in sentences for word in sentence]
        codes = self.spelling.codes(as_words(words))
        offsets, rows, weights = lattice.weights_of_words(self.index.nodes, *self.spelling.numbers, *codes)
        return Bags(
            torch.from_numpy(rows.astype(np.int64)), torch.from_numpy(offsets), torch.from_numpy(weights), lengths
        )


class PBoSEmbedding(nn.Module):  # type: ignore[misc]  # PyTorch is not looked at by mypy here
    """Embeds words by a model's subword vectors, which may be trained further.

    The state dict holds all it takes: the vectors, and as bytes the subwords, their probabilities and the spelling. It
    can be read with ``torch.load(..., weights_only=True)``.

    Attributes:
        bagger: Makes the bags; give it to a DataLoader (as `collate_fn`) to have its workers do so.
        bag: The `torch.nn.EmbeddingBag` with the subword vectors.

    >>> import pbos
    >>> embedding = PBoSEmbedding(pbos.load())
    >>> embedding(["unfriendliest", "covfefe"]).shape
    torch.Size([2, 160])
    >>> embedding([["one", "sentence"], ["another", "one", "here"]]).shape
    torch.Size([2, 3, 160])
    """

    def __init__(self, model: Model, *, trainable: bool = False, sparse: bool = False) -> None:
        """Take over a model's subwords and a copy of their vectors.

        Args:
            model: The model.
            trainable: Whether the subword vectors are parameters to be trained, or stay as they are.
            sparse: Whether gradients are sparse: they hold only the rows of the words at hand. For
                `torch.optim.SparseAdam`, `Adagrad` and `SGD`.
        """
        super().__init__()
        self.bagger = Bagger.of(model)
        self._words, self._info = model._packed_words, model.info
        vectors = torch.from_numpy(np.array(model.vectors.to_float32()))
        self.bag = nn.EmbeddingBag.from_pretrained(
            vectors, freeze=not trainable, mode="sum", sparse=sparse, include_last_offset=True
        )

    @property
    def dims(self) -> int:
        """The number of dimensions of the vectors."""
        return int(self.bag.embedding_dim)

    def bags(self, words: Iterable[str] | Iterable[Iterable[str]]) -> Bags:
        """Return what `forward` makes of words first, to be computed once or elsewhere."""
        return self.bagger(words)

    def forward(self, words: Iterable[str] | Iterable[Iterable[str]] | Bags) -> Tensor:
        """Return the vectors of words, (n_words, dims), or of sentences, (n_sentences, longest, dims), padded by zeros.

        A word none of whose subwords owns a vector gets zeros.

        Args:
            words: Words, or sentences that are lists of words, or the bags of either.
        """
        weight = self.bag.weight
        bags = (words if isinstance(words, Bags) else self.bags(words)).to(weight.device)
        vectors = self.bag(bags.indices, bags.offsets, per_sample_weights=bags.weights.to(weight.dtype))
        if bags.lengths is None:
            return vectors
        return pad_sequence(vectors.split(bags.lengths.tolist()), batch_first=True)

    def to_model(self) -> Model:
        """Return a model with the vectors as they are now."""
        vectors = self.bag.weight.detach().float().cpu().numpy().copy()
        info = {**self._info, "from_torch": True}
        return Model(self.bagger.index, self.bagger.spelling, SubwordVectors.of(vectors), self._words, info=info)

    # -- state dict ----------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> Tensor:
        """Return all but the vectors, as bytes; called by `state_dict`."""
        config = {
            "subwords": len(self.bagger.index),
            "vectors": self.bag.num_embeddings,
            "dims": self.dims,
            "words": self._words[1].size - 1,
            "spelling": self.bagger.spelling.to_dict(),
            "info": self._info,
        }
        tensors = {f"index.{name}": array for name, array in self.bagger.index.arrays._asdict().items()}
        tensors |= dict(zip(("words.bytes", "words.offsets"), self._words, strict=True))
        return pack(tensors, config)

    def set_extra_state(self, state: Tensor) -> None:
        """Take over what `get_extra_state` gave; called by `load_state_dict`."""
        index, spelling, self._words, self._info = unpack(state, self.bag.weight.shape)
        self.bagger = Bagger(index, spelling)

    @classmethod
    def from_state(
        cls, state: Mapping[str, Tensor], prefix: str = "", *, trainable: bool = False, sparse: bool = False
    ) -> PBoSEmbedding:
        """Make one from a state dict alone.

        Args:
            state: The state dict, of this module or of one that holds it.
            prefix: Its name there, with a dot: "embedding.".
            trainable: As in the constructor.
            sparse: As in the constructor.
        """
        try:
            weight, rest = state[f"{prefix}bag.weight"], state[f"{prefix}_extra_state"]
        except KeyError as error:
            raise InputError(f"the state dict has no {error}; its names are: {', '.join(state)}") from None
        index, spelling, words, info = unpack(rest, weight.shape)
        vectors = SubwordVectors(weight.detach().float().cpu().numpy().copy())
        made = cls(Model(index, spelling, vectors, words, info=info), trainable=trainable, sparse=sparse)
        return made.to(weight.dtype)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Say what printing the module shows of it."""
        return f"{self._words[1].size - 1:,} words, trainable={self.bag.weight.requires_grad}"


STATE = Path("the state dict")  # what messages name


def pack(tensors: dict[str, npt.NDArray[Any]], config: dict[str, Any]) -> Tensor:
    """Return arrays and plain data as one tensor of bytes: a safetensors file."""
    from safetensors.numpy import save

    as_bytes = np.frombuffer(json.dumps(config, ensure_ascii=False).encode(), np.uint8)
    plain = {name: np.ascontiguousarray(array) for name, array in {**tensors, "config": as_bytes}.items()}
    return torch.frombuffer(bytearray(save(plain)), dtype=torch.uint8)


def unpack(state: Tensor, shape: tuple[int, ...]) -> tuple[SubwordIndex, Spelling, PackedStrings, dict[str, Any]]:
    """Undo `pack`, after checks: return the index, the spelling, the words and the info."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(state.cpu().numpy().tobytes())
        config = json.loads(tensors.pop("config").tobytes())
        if [config["vectors"], config["dims"]] != list(shape):
            raise InputError(
                f"{STATE} has {config['vectors']} subword vectors x {config['dims']}, this module {shape[0]} x "
                f"{shape[1]}; make one that fits with PBoSEmbedding.from_state"
            )
        storage.check(STATE, {**tensors, "subword_vectors": np.broadcast_to(np.float32(0), shape)}, config)
        index = SubwordIndex(IndexArrays(*(tensors[f"index.{name}"] for name in IndexArrays._fields)))
        spelling = Spelling(**config["spelling"])
    except (SafetensorError, AttributeError, KeyError, TypeError) as error:
        raise ModelError(f"{STATE} holds no sound pbos model ({error}); get a fresh copy of it") from None
    if int(index.rows.max(initial=-1)) >= shape[0]:
        raise storage.damaged(STATE, "every subword's vector is there")
    return index, spelling, (tensors["words.bytes"], tensors["words.offsets"]), config["info"]


# -- new tokens of a language model ------------------------------------------------------------------------------------

STARTS = ("Ġ", "▁")  # what marks the beginning of a word: byte-level BPE, SentencePiece
CONTINUES = "##"  # what marks the opposite: WordPiece


def init_embeddings(
    model: Model | Any, tokens: Iterable[str], vocabulary: Mapping[str, int] | None = None, **settings: Any
) -> Tensor:
    """Return rows for new tokens of a language model: where pbos expects them, from their spelling.

    A pbos model is trained on the rows of the vocabulary's whole words, less their mean. A new row is the mean and what
    the model gives for the token, made as long as that of existing words; a token whose spelling says nothing gets the
    mean. Marks are understood: Ġ (byte-level BPE), ▁ (SentencePiece) and ## (WordPiece).

    Args:
        model: A language model with `get_input_embeddings()`, as those of transformers; or a layer with `weight`, or
            the matrix itself. Or a pbos model of the same space, whose vectors are the rows.
        tokens: The new tokens, with marks or without.
        vocabulary: The row of each token, `tokenizer.get_vocab()`; a pbos model needs none.
        **settings: For `pbos.train`.

    Returns:
        (n_tokens, dims), of the type and on the device of the rows that are there.
    """
    tokens = as_words(tokens)
    if isinstance(model, Model):
        if settings:
            raise InputError(f"{', '.join(settings)}: a pbos model is given, so there is nothing to train")
        style = style_of(tokens if vocabulary is None else vocabulary)
        return torch.from_numpy(model.embed([letters_of(token, style) for token in tokens]))
    if vocabulary is None:
        raise InputError("the rows say nothing without their tokens; give vocabulary=tokenizer.get_vocab()")
    matrix, style = matrix_of(model), style_of(vocabulary)
    rows = {letters_of(token, style): row for token, row in reversed(list(vocabulary.items())) if is_word(token, style)}
    if not rows:
        raise InputError("the vocabulary has no token that is a whole word, so there is nothing to learn from")
    if max(rows.values()) >= len(matrix) or min(rows.values()) < 0:
        raise InputError(f"the vocabulary names row {max(rows.values())}, but there are {len(matrix)} embeddings")
    words, known = list(rows), matrix[list(rows.values())].float().cpu().numpy()
    center = known.mean(axis=0)
    away = known - center
    found = train((words, away), **{"progress": False, **settings}).embed(letters_of(token, style) for token in tokens)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    usual = np.median(np.linalg.norm(away, axis=1))
    new = center + np.divide(found * usual, lengths, out=np.zeros_like(found), where=lengths > 0)
    return torch.from_numpy(new).to(matrix)


def matrix_of(model: Any) -> Tensor:
    """Return the rows of a language model, a layer or a matrix."""
    layer = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else model
    matrix = torch.as_tensor(getattr(layer, "weight", layer)).detach()
    if matrix.ndim != 2:
        raise InputError(f"expected a matrix with a row for each token, got the shape {tuple(matrix.shape)}")
    return matrix


def style_of(vocabulary: Iterable[str]) -> str:
    """Tell how a vocabulary marks the place of a token in a word: by "Ġ", "▁", "##" or not at all, "".

    >>> style_of(["[CLS]", "un", "##friend", "##ly"])
    '##'
    """
    marks = {mark: 0 for mark in (*STARTS, CONTINUES)}
    for token in vocabulary:
        for mark in marks:
            marks[mark] += token.startswith(mark)
    most = max(marks, key=lambda mark: marks[mark])
    return most if marks[most] else ""


def is_word(token: str, style: str) -> bool:
    """Tell whether a token of a vocabulary stands for a word: it begins one, and is no special token or punctuation.

    >>> [is_word(token, "Ġ") for token in ("Ġhigh", "er", "<s>", "Ġ-")]
    [True, False, False, False]
    """
    begins = token.startswith(style) if style in STARTS else not (style and token.startswith(style))
    letters = letters_of(token, style)
    return begins and bool(letters) and all(unicodedata.category(c)[0] in "LNM" for c in (letters[0], letters[-1]))


def letters_of(token: str, style: str) -> str:
    """Return a token as people write it, without marks.

    >>> letters_of("Ġcaf\u00c3\u00a9", "Ġ"), letters_of("##ly", "##")
    ('café', 'ly')
    """
    if style == "Ġ":
        token = decoded(token)
    return token.removeprefix(style).strip() or token


def decoded(token: str) -> str:
    """Return the text of a token of byte-level BPE, whose characters stand for bytes; any other token as it is."""
    try:
        return bytes(byte_of_character()[character] for character in token).decode()
    except (KeyError, UnicodeDecodeError):
        return token


@cache
def byte_of_character() -> dict[str, int]:
    """Return which byte each character of byte-level BPE stands for: itself if it can be seen, else one from 256 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + place): byte for place, byte in enumerate(unseen)}
