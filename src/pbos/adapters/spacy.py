"""spaCy: a pbos model as the vectors of a pipeline (extra `spacy`, version 3.7 or later).

`add_vectors` gives a pipeline its vectors. In a config file, write

    [nlp.vectors]
    @vectors = "pbos.Vectors.v1"
    model = "my-model"

This needs no import, because spaCy finds pbos through its entry point. A saved pipeline contains the model.
"""

import copy
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from pbos.errors import InputError, MissingExtraError, ModelError, PbosError, warn
from pbos.files.model_folder import CARD, CONFIG, TENSORS
from pbos.model import Model, load
from pbos.settings import check_choice
from pbos.words.arrays import FloatMatrix

try:
    import srsly
    from spacy import util
    from spacy.attrs import IDS
    from spacy.language import Language
    from spacy.strings import StringStore, get_string_id
    from spacy.vectors import BaseVectors
    from spacy.vocab import Vocab
    from thinc.api import get_current_ops
except ImportError:
    raise MissingExtraError("spaCy's vectors", "spacy") from None

NAME = "pbos.Vectors.v1"
FOLDER = "pbos"  # of the model, in the folder of a saved vocabulary
ATTRIBUTES = ("ORTH", "LOWER", "NORM")
Key = int | str  # a word, or its hash in spaCy's StringStore
Source = Model | str | PathLike[str] | None  # a model, its folder, or the English one that comes with pbos


def add_vectors(nlp: Language, model: Source = None, *, attr: str = "ORTH", exact: bool = False) -> Language:
    """Give a pipeline the vectors of a model, and return the pipeline.

    Its config is changed too: `nlp.to_disk` saves the model, and `spacy.load` loads it.

    >>> import spacy
    >>> nlp = add_vectors(spacy.blank("en"))
    >>> nlp("the unfriendliest covfefe").vector.shape
    (160,)

    Args:
        nlp: The pipeline. Its components should not have been trained with other vectors.
        model: A model or its folder; None for the English one that comes with pbos.
        attr: The attribute of a token to look up: ORTH (its text), NORM, or LOWER for a model of lowercase words.
        exact: Whether to use the given vectors of training words, as in `model.embed`.
    """
    vectors = PbosVectors(model, strings=nlp.vocab.strings, attr=attr, exact=exact)
    vectors.embed([])  # raises an error if the model is missing or does not have the given vectors
    models = [(name, component.model) for name, component in nlp.pipeline if hasattr(component, "model")]
    layers = [(name, layer) for name, model in models for layer in model.walk() if layer.name == "static_vectors"]
    trained = dict.fromkeys(name for name, layer in layers if layer.has_param("W"))
    if trained and nlp.vocab.vectors != vectors:
        warn(f"{', '.join(trained)} in this pipeline learned from other vectors; train the pipeline again with these")
    nlp.vocab.vectors = vectors
    # A model without a path is only in the saved pipeline, so the config names its place there.
    path = f"vocab/{FOLDER}" if isinstance(model, Model) else None if model is None else fspath(model)
    nlp.config["nlp"]["vectors"] = {"@vectors": NAME, "model": path, "attr": attr, "exact": exact}
    return nlp


@util.registry.vectors(NAME)  # type: ignore[untyped-decorator]
def create_vectors(
    model: str | None = None, attr: str = "ORTH", exact: bool = False
) -> "Callable[[Vocab], PbosVectors]":
    """Return a function that makes the vectors of a vocabulary; the arguments are the settings in [nlp.vectors].

    They are those of `add_vectors`. The model is loaded on first use, because a saved pipeline contains its own copy.
    """
    return lambda vocab: PbosVectors(model, strings=vocab.strings, attr=attr, exact=exact)


class PbosVectors(BaseVectors):  # type: ignore[misc]
    """Vectors for spaCy, composed from the spelling of words: a word with any known subword has a vector.

    The training words are what spaCy calls rows and keys: `most_similar`, `keys` and `shape` are about them. The
    vectors cannot be changed.

    >>> import spacy
    >>> nlp = add_vectors(spacy.blank("en"))
    >>> keys, rows, scores = nlp.vocab.vectors.most_similar(nlp("unfriendliest").vector[None], n=2)
    >>> [nlp.vocab.strings[key] for key in keys[0]]
    ['unfriendly', 'friendliest']
    """

    mode = "pbos"  # spaCy's own vectors have "default" or "floret"
    name = "pbos"  # spaCy may set another one
    key2row: dict[int, int] = {}  # noqa: RUF012  # spaCy looks into it for every new word
    is_full = False  # so that spaCy does not make room before it adds a vector

    def __init__(self, model: Source = None, *, strings: Any = None, attr: str = "ORTH", exact: bool = False) -> None:
        check_choice("attr", attr.upper(), ATTRIBUTES)
        self.attr, self.exact = IDS[attr.upper()], exact
        self._source = model
        self._stores: tuple[Any, ...] = (StringStore() if strings is None else strings,)
        self.to_ops(get_current_ops())

    @cached_property
    def model(self) -> Model:
        """The model; a path is loaded on first use."""
        try:
            return self._source if isinstance(self._source, Model) else load(self._source)
        except ModelError as error:
            advice = "set model in [nlp.vectors] to a model folder; spaCy does not replace ${variables} there"
            raise ModelError(f"{error}; {advice}") from None

    def embed(self, words: list[str]) -> FloatMatrix:
        """Return the vectors of words, float32 (n_words, dims); zeros for empty ones and those without a vector."""
        return self.model.embed(words, exact=self.exact, missing="zeros")

    def __getitem__(self, key: Key) -> Any:
        """Return the vector of a word, float32 (dims,), or raise a KeyError if it has none."""
        (vector,) = self.embed([self._word(key)])
        if not vector.any():
            raise KeyError(f"no known subword in {self._word(key)!r}")
        return self._ops.asarray(vector)

    def __contains__(self, key: Key) -> bool:
        """Return whether a word has a vector."""
        with suppress(KeyError):
            return self[key] is not None
        return False

    def get_batch(self, keys: Iterable[Key]) -> Any:
        """Return the vectors of many words, float32 (n_words, dims); zeros for those without a vector."""
        listed: Any = keys.tolist() if hasattr(keys, "tolist") else keys
        return self._ops.asarray(self.embed([self._word(key) for key in listed]))

    def most_similar(self, queries: Any, *, batch_size: int = 1024, n: int = 1, sort: bool = True) -> tuple[Any, ...]:
        """Find the n training words nearest to each of some vectors, (n_queries, dims), by cosine, nearest first.

        Returns keys (uint64), rows (int32) and cosines rounded to 4 digits (float32), each (n_queries, n). The words of
        the keys are in the vocabulary's `strings`. `batch_size` and `sort` are not used.
        """
        words = self.model.words
        if not 1 <= n <= len(words):
            raise InputError(f"n must be between 1 and the number of training words, {len(words)}; got {n}")
        vectors = np.asarray(self._ops.to_numpy(queries), np.float32)
        zeros = [(word, 0.0) for word in words[:n]]  # a zero vector has cosine 0 with all words
        found = [near or zeros for near in self.model.neighbors(vectors, n, exact=self.exact)]
        nearest = [word for near in found for word, _ in near]
        keys = np.array([self.strings.add(word) for word in nearest], np.uint64)
        rows = np.array([self.model.subwords.word_rows[word] for word in nearest], np.int32)
        scores = np.array([cosine for near in found for _, cosine in near], np.float32).round(4).clip(-1, 1)
        return tuple(self._ops.asarray(array.reshape(-1, n)) for array in (keys, rows, scores))

    @property
    def strings(self) -> Any:
        """The StringStore with the words of keys; the vocabulary sets it."""
        return self._stores[0]

    @strings.setter
    def strings(self, store: Any) -> None:
        # Earlier stores stay: while a vocabulary is unpickled, it passes one that it then drops.
        self._stores = (store, *self._stores)

    def _word(self, key: Key) -> str:
        if isinstance(key, str):
            return key
        for store in self._stores:
            if key in store:
                return str(store[key])
        raise KeyError(f"no word is known for the key {key}")

    def keys(self) -> list[int]:
        """Return the keys of the training words, in their order."""
        return [get_string_id(word) for word in self.model.words]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of training words and of dimensions; zeros if there is no model.

        spaCy asks for it before `from_disk` loads the model of a saved pipeline, whose config may name a lost folder.
        """
        with suppress(PbosError):
            return len(self.model), self.model.dims
        return 0, 0

    @property
    def size(self) -> int:
        """The number of training words times the number of dimensions."""
        return len(self.model) * self.model.dims

    @property
    def n_keys(self) -> int:
        """The number of training words."""
        return self.shape[0]

    def __len__(self) -> int:
        return self.n_keys

    @property
    def data(self) -> Any:
        """An array without rows; its type tells spaCy whether vectors are on the CPU or on a GPU."""
        return self._ops.alloc2f(0, self.shape[1])

    def to_ops(self, ops: Any) -> None:
        """Choose the arrays to return: NumPy's, or CuPy's on a GPU. Vectors are composed on the CPU."""
        self._ops = ops

    def add(self, key: Key, *, vector: Any = None, row: int | None = None) -> int:
        """Return -1, because nothing can be added; warn if there is a vector to add."""
        if vector is not None and vector.any():  # spaCy adds zeros when it merges tokens without vectors
            warn(f"the vector of {self._word(key)!r} was not set: pbos composes vectors from the spelling alone")
        return -1

    def to_disk(self, path: str | PathLike[str], *, exclude: Iterable[str] = ()) -> None:
        """Save the model in the folder of the vocabulary; `attr` and `exact` are in the pipeline's config."""
        Path(path).mkdir(exist_ok=True)
        self.model.save(Path(path, FOLDER))

    def from_disk(self, path: str | PathLike[str], *, exclude: Iterable[str] = ()) -> "PbosVectors":
        """Load the model saved in a folder; there is none if spaCy copies components from a pipeline without pbos."""
        if Path(path, FOLDER).is_dir():
            self.model = load(Path(path, FOLDER))
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the model as bytes; `attr` and `exact` are in the pipeline's config."""
        with tempfile.TemporaryDirectory() as temporary:
            self.to_disk(temporary)
            files = {file.name: file.read_bytes() for file in Path(temporary, FOLDER).iterdir()}
        return bytes(srsly.msgpack_dumps({FOLDER: files}))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "PbosVectors":
        """Load the model from bytes, if they contain one."""
        files = srsly.msgpack_loads(data).get(FOLDER)
        if files is not None:
            with tempfile.TemporaryDirectory() as temporary:
                for name in (TENSORS, CONFIG, CARD):
                    Path(temporary, name).write_bytes(files[name])
                self.model = copy.deepcopy(load(temporary))  # the files are about to be deleted
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return PbosVectors, (), {name: value for name, value in vars(self).items() if name != "_ops"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        """Return whether all words have the same vectors; spaCy asks when it copies a component between pipelines."""
        if not isinstance(other, PbosVectors) or (self.attr, self.exact) != (other.attr, other.exact):
            return False
        return self.model is other.model or self.to_bytes() == other.to_bytes()
