"""spaCy: a pbos model as the vectors of a pipeline (extra `spacy`, version 3.7 or later).

`add_vectors` gives a pipeline its vectors. In a config file the same is

    [nlp.vectors]
    @vectors = "pbos.Vectors.v1"
    model = "my-model"

which works without an import, as pbos is found through its entry point. A saved pipeline holds the model.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, MissingExtraError, ModelError, PbosError
from pbos.files import warn
from pbos.model import Model, load, unit_rows
from pbos.storage import CARD, CONFIG, TENSORS
from pbos.subword_vectors import FloatMatrix

try:
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
FOLDER = "pbos"  # the model's place in the folder of a saved vocabulary
FILES = (TENSORS, CONFIG, CARD)
ATTRIBUTES = ("ORTH", "LOWER", "NORM")
Key = int | str  # a word, or its hash in spaCy's StringStore


def add_vectors(
    nlp: Language,
    model: Model | str | PathLike[str] | None = None,
    *,
    attr: str = "ORTH",
    exact: bool = False,
) -> Language:
    """Give a pipeline the vectors of a model, and return the pipeline.

    Its config says so too: what `nlp.to_disk` saves holds the model, and `spacy.load` finds it there.

    >>> import spacy
    >>> nlp = add_vectors(spacy.blank("en"))
    >>> nlp("the unfriendliest covfefe").vector.shape
    (160,)

    Args:
        nlp: The pipeline. Its components should not have been trained with other vectors.
        model: A model or its folder; None for the English one that comes with pbos.
        attr: What of a token is looked up: ORTH (its text), LOWER or NORM. LOWER suits a model of lower-case words.
        exact: Whether training words have the vectors they were given (`train(..., keep_targets=True)`) instead of
            composed ones.
    """
    vectors = PbosVectors(model, strings=nlp.vocab.strings, attr=attr, exact=exact)
    vectors.embed([])  # which raises where the model is not there or has no given vectors
    if (names := learned_from_vectors(nlp)) and nlp.vocab.vectors != vectors:
        warn(f"{', '.join(names)} of this pipeline learned from other vectors; train again with these")
    nlp.vocab.vectors = vectors
    # A model without a path is found in the saved pipeline only: then the config names its place there.
    path = f"vocab/{FOLDER}" if isinstance(model, Model) else None if model is None else fspath(model)
    nlp.config["nlp"]["vectors"] = {"@vectors": NAME, "model": path, "attr": attr, "exact": exact}
    return nlp


def learned_from_vectors(nlp: Language) -> list[str]:
    """Name the components of a pipeline that were trained with its vectors."""
    models = {name: component.model for name, component in nlp.pipeline if hasattr(component, "model")}
    return [
        name
        for name, model in models.items()
        if any(layer.name == "static_vectors" and layer.has_param("W") for layer in model.walk())
    ]


@util.registry.vectors(NAME)  # type: ignore[untyped-decorator]
def create_vectors(
    model: str | None = None, attr: str = "ORTH", exact: bool = False
) -> "Callable[[Vocab], PbosVectors]":
    """Return what makes the vectors of a vocabulary; the settings of [nlp.vectors] in a config are its arguments.

    Args:
        model: The folder of a model; None for the English one that comes with pbos. It is loaded when the first vector
            is asked for, as a saved pipeline brings its own copy.
        attr: What of a token is looked up, as in `add_vectors`.
        exact: Whether training words have the vectors they were given, as in `add_vectors`.
    """

    def of_vocab(vocab: Vocab) -> PbosVectors:
        return PbosVectors(model, strings=vocab.strings, attr=attr, exact=exact)

    return of_vocab


class PbosVectors(BaseVectors):  # type: ignore[misc]
    """Vectors for spaCy from the spelling of words: a word has one if known subwords cover any of its letters.

    What spaCy calls rows and keys are the model's training words: `most_similar`, `find`, `keys` and `shape` run over
    them. The vectors cannot be changed.

    >>> import spacy
    >>> nlp = add_vectors(spacy.blank("en"))
    >>> keys, rows, scores = nlp.vocab.vectors.most_similar(nlp("unfriendliest").vector[None], n=2)
    >>> [nlp.vocab.strings[key] for key in keys[0]]
    ['unfriendly', 'unfriend']

    Attributes:
        name: A name of the vectors, which spaCy keeps in meta.json.
        attr: What of a token is looked up, as spaCy's number for it.
        exact: Whether training words have the vectors they were given.
        mode: "pbos", where spaCy's own vectors have "default" or "floret".
        key2row: Empty, as for floret: a vector is not a row of a table.
        is_full: True: nothing can be added.
    """

    mode = "pbos"
    key2row: dict[int, int] = {}  # noqa: RUF012  # spaCy looks into it at every new word
    is_full = True

    def __init__(
        self,
        model: Model | str | PathLike[str] | None = None,
        *,
        strings: Any = None,
        name: str | None = "pbos",
        attr: str = "ORTH",
        exact: bool = False,
    ) -> None:
        if attr.upper() not in ATTRIBUTES:
            raise InputError(f"unknown attr {attr!r}; choose one of: {', '.join(ATTRIBUTES)}")
        self.name, self.attr, self.exact = name, IDS[attr.upper()], exact
        self._source = model
        self._model: Model | None = None
        self._other_stores: tuple[Any, ...] = ()
        self.strings = StringStore() if strings is None else strings
        self.to_ops(get_current_ops())

    # -- the model -----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model; a path is loaded at the first use."""
        if self._model is None:
            try:
                self._use(self._source if isinstance(self._source, Model) else load(self._source))
            except ModelError as error:
                advice = "name a model folder as model in [nlp.vectors]; spaCy fills in no ${variables} there"
                raise ModelError(f"{error}; {advice}") from None
            assert self._model is not None
        return self._model

    def _use(self, model: Model) -> None:
        if self.exact:
            model.embed([], exact=True)  # which raises where the model has no given vectors
        self._model, self._n_words = model, int(model.config()["words"])
        self._unit_words: FloatMatrix | None = None
        self._row_of_key: dict[int, int] | None = None

    # -- vectors of words ----------------------------------------------------------------------------------------------

    def embed(self, words: list[str]) -> FloatMatrix:
        """Return the vectors of words, float32 (n_words, dims); zeros for those that have none."""
        if "" in words:  # which has no spelling
            vectors = np.zeros((len(words), self.model.dims), np.float32)
            at = [i for i, word in enumerate(words) if word]
            vectors[at] = self.embed([words[i] for i in at])
            return vectors
        return self.model.embed(words, exact=self.exact)

    def _vector(self, word: str) -> npt.NDArray[np.float32]:
        """Return what `embed` does for one word, sooner."""
        return self.model[word] if word and not self.exact else self.embed([word])[0]

    def __getitem__(self, key: Key) -> Any:
        """Return the vector of a word, float32 (dims,); a KeyError where it has none."""
        vector = self._vector(self._word(key))
        if not vector.any():
            raise KeyError(f"no known subword in {self._word(key)!r}")
        return self._ops.asarray(vector)

    def __contains__(self, key: Key) -> bool:
        """Tell whether a word has a vector."""
        try:
            word = self._word(key)
        except KeyError:
            return False
        return bool(self._vector(word).any())

    def get_batch(self, keys: Iterable[Key]) -> Any:
        """Return the vectors of many words, float32 (n_words, dims); zeros for those that have none."""
        return self._ops.asarray(self.embed([self._word(key) for key in as_list(keys)]))

    def most_similar(
        self, queries: Any, *, batch_size: int = 1024, n: int = 1, sort: bool = True
    ) -> tuple[Any, Any, Any]:
        """Find the training words nearest to each of some vectors, by cosine.

        Args:
            queries: Vectors (n_queries, dims).
            batch_size: How many of them to compare at a time.
            n: How many words to find for each.
            sort: Whether the nearest comes first.

        Returns:
            keys (uint64), rows (int32) and cosines rounded to 4 digits (float32), each (n_queries, n). The words of the
            keys are in the vocabulary's `strings`.
        """
        words = self.model.words
        if not 1 <= n <= len(words):
            raise InputError(f"n must be between 1 and the number of training words, {len(words)}; got {n}")
        if self._unit_words is None:
            self._unit_words = unit_rows(self.embed(words))
        units = unit_rows(np.asarray(self._ops.to_numpy(queries), np.float32), near_zero=0)
        rows = np.zeros((len(units), n), np.int32)
        cosines = np.zeros((len(units), n), np.float32)
        for first in range(0, len(units), batch_size):
            near = units[first : first + batch_size] @ self._unit_words.T
            best = np.argpartition(near, -n, axis=1)[:, -n:]
            if sort:
                best = np.take_along_axis(best, np.argsort(-np.take_along_axis(near, best, 1), axis=1), 1)
            rows[first : first + batch_size] = best
            cosines[first : first + batch_size] = np.take_along_axis(near, best, 1)
        keys = [[self.strings.add(words[row]) for row in found] for found in rows.tolist()]
        found = np.array(keys, np.uint64).reshape(rows.shape), rows, np.clip(cosines.round(4), -1, 1)
        return tuple(map(self._ops.asarray, found))

    # -- words, keys, rows ---------------------------------------------------------------------------------------------

    @property
    def strings(self) -> Any:
        """The StringStore that knows the words of keys; the vocabulary sets it."""
        return self._stores[0]

    @strings.setter
    def strings(self, store: Any) -> None:
        # When a vocabulary is unpickled, it hands over a store which it then puts another in place of.
        self._stores = (store, *self._other_stores)

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

    def __iter__(self) -> Iterator[int]:
        return iter(self.keys())

    def find(
        self,
        *,
        key: Key | None = None,
        keys: Iterable[Key] | None = None,
        row: int | None = None,
        rows: Iterable[int] | None = None,
    ) -> Any:
        """Find the row of a key (-1 if it is none of a training word) or the key of a row; or of many, as an array."""
        if sum(given is not None for given in (key, keys, row, rows)) != 1:
            raise InputError("find needs one of key, keys, row and rows")
        if key is not None:
            return self._rows.get(get_string_id(key), -1)
        if keys is not None:
            found = [self._rows.get(get_string_id(one), -1) for one in as_list(keys)]
            return self._ops.asarray(np.array(found, np.int32))
        if row is not None:
            return get_string_id(self.model.words[row])
        assert rows is not None
        words = [self.model.words[one] for one in as_list(rows)]
        return self._ops.asarray(np.array([get_string_id(word) for word in words], np.uint64))

    @property
    def _rows(self) -> dict[int, int]:
        if self._row_of_key is None:
            self._row_of_key = {key: row for row, key in enumerate(self.keys())}
        return self._row_of_key

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """The number of training words and of dimensions; zeros where there is no model.

        spaCy asks for them before `from_disk` brings the model of a saved pipeline, whose config may name a place that
        is long gone. All that needs vectors, `size` too, raises an error where there is no model.
        """
        with suppress(PbosError):
            dims = self.model.dims
            return self._n_words, dims
        return 0, 0

    @property
    def size(self) -> int:
        """The number of training words times that of dimensions."""
        dims = self.model.dims
        return self._n_words * dims

    @property
    def n_keys(self) -> int:
        """The number of training words."""
        return self.shape[0]

    @property
    def vectors_length(self) -> int:
        """The number of dimensions."""
        return self.shape[1]

    def __len__(self) -> int:
        return self.n_keys

    @property
    def data(self) -> Any:
        """An array without rows: spaCy looks at its kind, which tells where vectors are, on the CPU or a GPU."""
        return self._ops.alloc2f(0, self.vectors_length)

    def to_ops(self, ops: Any) -> None:
        """Choose the kind of array that vectors come as: NumPy's, or CuPy's on a GPU. They are composed on the CPU."""
        self._ops = ops

    # -- what cannot be done -------------------------------------------------------------------------------------------

    def add(self, key: Key, *, vector: Any = None, row: int | None = None) -> int:
        """Return -1, as nothing can be added; warn if there was something to add."""
        if vector is not None and vector.any():  # spaCy adds zeros when it merges tokens without vectors
            warn(f"the vector of {self._word(key)!r} was not set: vectors of pbos come from the spelling alone")
        return -1

    def resize(self, shape: tuple[int, int], inplace: bool = False) -> list[tuple[int, int]]:
        """Do nothing, as there is no table: spaCy calls it before `add`."""
        return []

    # -- files and copies ----------------------------------------------------------------------------------------------

    def to_disk(self, path: str | PathLike[str], *, exclude: Iterable[str] = ()) -> None:
        """Save the model in a folder, that of the vocabulary; `attr` and `exact` are in the pipeline's config."""
        folder = Path(path)
        folder.mkdir(exist_ok=True)
        self.model.save(folder / FOLDER)

    def from_disk(self, path: str | PathLike[str], *, exclude: Iterable[str] = ()) -> "PbosVectors":
        """Load the model saved in a folder; where there is none, keep the one at hand.

        There is none in other pipelines, which spaCy reads in this way to take components from them.
        """
        folder = Path(path) / FOLDER
        if folder.is_dir():
            self._use(load(folder))
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the model as bytes; `attr` and `exact` are in the pipeline's config."""
        with tempfile.TemporaryDirectory() as temporary:
            self.to_disk(temporary)
            files = {name: (Path(temporary) / FOLDER / name).read_bytes() for name in FILES}
        content: bytes = util.to_bytes({FOLDER: lambda: files}, exclude)
        return content

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "PbosVectors":
        """Take the model from bytes; where there is none in them, keep the one at hand."""

        def use(files: dict[str, bytes]) -> None:
            with tempfile.TemporaryDirectory() as temporary:
                for name in FILES:
                    (Path(temporary) / name).write_bytes(files[name])
                self._use(load(temporary).copy())

        util.from_bytes(data, {FOLDER: use}, exclude)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickled, (self._model or self._source, self.name, self.attr, self.exact, self._stores)

    def __eq__(self, other: object) -> bool:
        """Tell whether all words have the same vectors; spaCy asks when it takes a component from another pipeline."""
        if not isinstance(other, PbosVectors):
            return False
        if (self.attr, self.exact) != (other.attr, other.exact):
            return False
        return self.model is other.model or self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]


def unpickled(
    model: Model | str | PathLike[str] | None, name: str | None, attr: int, exact: bool, stores: tuple[Any, ...]
) -> PbosVectors:
    """Make vectors again from what was pickled."""
    vectors = PbosVectors(model, strings=stores[0], name=name, exact=exact)
    vectors.attr, vectors._other_stores = attr, stores
    return vectors


def as_list(values: Any) -> list[Any]:
    """Turn an array of any kind, or any iterable, into a list of Python's own numbers or strings."""
    return list(values.tolist() if hasattr(values, "tolist") else values)
