"""Model: a vector for every word. The thing people hold."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from pbos import storage
from pbos.errors import InputError, ModelError
from pbos.explanation import Explanation
from pbos.kernels import lattice
from pbos.kernels.trie import IndexArrays, Nodes
from pbos.segmenter import CHUNK, Segmenter
from pbos.spelling import Spelling
from pbos.subword_vectors import FloatMatrix, SubwordVectors
from pbos.subwords import SubwordIndex
from pbos.text import Codes, PackedStrings, as_words, normalize, unpack_strings
from pbos.threads import in_threads, share

EMBEDDED = Path(__file__).parent / "data" / "english"
NEAR_ZERO = 1e-6  # a vector shorter than this has no direction


class Model(Segmenter):
    """Subwords and their vectors: embeds, segments and explains any word.

    Make one with `pbos.train` or `pbos.load`. A model does not change once made, so threads can share it.

    Attributes:
        index: The subwords.
        spelling: How a word becomes subwords and weights.
        vectors: The subword vectors.
        info: How the model was made, as plain data; kept in config.json.
    """

    def __init__(
        self,
        index: SubwordIndex,
        spelling: Spelling,
        vectors: SubwordVectors,
        packed_words: PackedStrings,
        target_vectors: FloatMatrix | None = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(index, spelling)
        self.vectors = vectors
        self.info = info or {}
        self._packed_words = packed_words
        self._target_vectors = target_vectors
        self._on_devices: dict[str, Any] = {}  # the vectors on each device that was asked for

    # -- vectors -------------------------------------------------------------------------------------------------------

    @property
    def dims(self) -> int:
        """The number of dimensions of the vectors."""
        return self.vectors.dims

    @cached_property
    def nodes(self) -> Nodes:
        """The index as the kernels walk it, with the lengths of the vectors; unpacked at the first use."""
        return self.index.unpacked(self.vectors.lengths)

    def __getitem__(self, word: str) -> npt.NDArray[np.float32]:
        """Return the vector of one word, float32 (dims,)."""
        if not isinstance(word, str):
            raise InputError(f"expected a word (str), got {type(word).__name__}: {word!r}; for many words use embed()")
        vectors = np.empty((1, self.dims), np.float32)
        self.vectors.embed(self.nodes, self.spelling.numbers, self.spelling.codes_of(word), vectors)
        vector: npt.NDArray[np.float32] = vectors[0]
        return vector

    def embed(
        self,
        words: Iterable[str],
        *,
        threads: int | None = None,
        device: str | None = None,
        out: FloatMatrix | None = None,
        exact: bool = False,
    ) -> FloatMatrix:
        """Return the vectors of many words, float32 (n_words, dims).

        A word none of whose subwords owns a vector gets zeros (and `coverage` 0).

        Args:
            words: A list or any iterable of str, a NumPy array of strings, a pandas or Arrow column.
            threads: How many threads to use; None for one a core. The result does not depend on it.
            device: Where to sum up vectors: "cuda", "cuda:1" or another device of PyTorch (extra `torch`), which then
                keeps the subword vectors; None for the CPU. The last digits may depend on it.
            out: A C-contiguous float32 array (n_words, dims) to write into.
            exact: Return a training word's given vector instead of the composed one; the model must hold them
                (`train(..., keep_targets=True)`).
        """
        words = as_words(words)
        if out is None:
            out = np.empty((len(words), self.dims), np.float32)
        elif out.shape != (len(words), self.dims) or out.dtype != np.float32 or not out.flags.c_contiguous:
            raise InputError(
                f"out must be a C-contiguous float32 array of shape {(len(words), self.dims)}, "
                f"got {out.dtype} {out.shape}"
            )
        write, most = self._writer(device)
        size = share(len(words), most, threads)

        def embed_chunk(first: int) -> None:
            chunk, place = words[first : first + size], out[first : first + size]
            distinct = dict.fromkeys(chunk)
            if 2 * len(distinct) > len(chunk):
                write(self.spelling.codes(chunk, first), place)
            else:  # as in running text
                try:
                    codes = self.spelling.codes(list(distinct))
                except InputError:
                    self.spelling.codes(chunk, first)  # which says where among all words
                    raise
                vectors = np.empty((len(distinct), self.dims), np.float32)
                write(codes, vectors)
                rows = dict(zip(distinct, range(len(distinct)), strict=True))
                np.take(vectors, [rows[word] for word in chunk], axis=0, out=place)

        for _ in in_threads(embed_chunk, range(0, len(words), size), threads):
            pass
        if exact:
            self._put_given_vectors(words, out)
        return out

    def _writer(self, device: str | None) -> tuple[Callable[[Codes, FloatMatrix], None], int]:
        """Return what writes the vectors of words into an array, and for how many words at a time."""
        nodes, numbers = self.nodes, self.spelling.numbers  # before there are threads that would all unpack the index

        def write(codes: Codes, out: FloatMatrix) -> None:
            self.vectors.embed(nodes, numbers, codes, out)

        if device is None or device == "cpu":
            return write, CHUNK
        from pbos import gpu  # here, as PyTorch takes its time

        if device not in self._on_devices:
            found = gpu.find_device(device, "embedding")
            if found is None:
                return write, CHUNK
            self._on_devices[device] = gpu.Embedder(self.vectors.values, self.vectors.scales, found)
        embedder = self._on_devices[device]

        def write_on_device(codes: Codes, out: FloatMatrix) -> None:
            embedder.compose(*lattice.weights_of_words(nodes, *numbers, *codes), out)

        return write_on_device, gpu.WORDS

    def _put_given_vectors(self, words: list[str], out: FloatMatrix) -> None:
        if self._target_vectors is None:
            raise InputError("this model does not hold the given vectors; train it with keep_targets=True to use exact")
        for at, word in enumerate(normalize(words, self.spelling.normalization)):
            row = self._word_rows.get(word)
            if row is not None:
                out[at] = self._target_vectors[row]

    @overload
    def similarity(self, first: str, second: str) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def similarity(self, first: Iterable[str], second: Iterable[str]) -> npt.NDArray[np.float32]: ...
    def similarity(self, first: str | Iterable[str], second: str | Iterable[str]) -> float | npt.NDArray[np.float32]:
        """Return the cosine of two words' vectors, or of many pairs; 0 where a vector is (nearly) zero."""
        if isinstance(first, str) and isinstance(second, str):
            return float(self.similarity([first], [second])[0])
        left, right = self.embed(first), self.embed(second)
        if left.shape != right.shape:
            raise InputError(f"similarity needs as many first words as second ones, got {len(left)} and {len(right)}")
        return cosines(left, right)

    def neighbors(self, word: str, n: int = 10) -> list[tuple[str, float]]:
        """Return the n training words nearest to a word by cosine, nearest first, without the word itself."""
        query = unit_rows(self[word][None])[0]
        if not query.any():
            raise InputError(f"{word!r} has no subword with a vector, so it has no neighbors")
        near = self._unit_words @ query
        (normal,) = normalize([word], self.spelling.normalization)
        best = np.argsort(-near, kind="stable")[: max(n, 0) + 1].tolist()
        return [(self.words[i], float(near[i])) for i in best if self.words[i] != normal][: max(n, 0)]

    def explain(self, word: str, n: int = 5, *, neighbors: int = 10) -> Explanation:
        """Return why a word gets its vector, to print, to draw or to look at in a notebook.

        Args:
            word: A word.
            n: How many segmentations; a table of it also shows so many weights.
            neighbors: How many of the nearest training words; they are looked for when asked for.
        """
        explanation = super().explain(word, n)
        return Explanation(word, explanation.lattice, n, partial(self._neighbors_if_any, word, neighbors))

    def _neighbors_if_any(self, word: str, n: int) -> list[tuple[str, float]]:
        return self.neighbors(word, n) if unit_rows(self[word][None]).any() else []

    @cached_property
    def _unit_words(self) -> FloatMatrix:  # (n_words, dims)
        return unit_rows(self.embed(self.words))

    # -- training words ------------------------------------------------------------------------------------------------

    @cached_property
    def words(self) -> list[str]:
        """The words the model was trained on, in their given order."""
        try:
            return unpack_strings(*self._packed_words)
        except UnicodeDecodeError:
            raise ModelError("the model's list of words is damaged; get a fresh copy of the model") from None

    @cached_property
    def _word_rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    def __contains__(self, word: object) -> bool:
        """Tell whether a word was a training word."""
        return isinstance(word, str) and normalize([word], self.spelling.normalization)[0] in self._word_rows

    # -- smaller models ------------------------------------------------------------------------------------------------

    def compress(self, *, min_count: int = 1, dtype: str | None = None, dims: int | None = None) -> Model:
        """Return a smaller model.

        Args:
            min_count: Keep the subwords that at least this many training words hold; the others lose their vector and
                their probability.
            dtype: How to hold the vectors: float32, float16 or int8 (a scale for each row).
            dims: Project onto this many dimensions, those along which the training words' vectors extend most.
        """
        if min_count < 1:
            raise InputError(f"min_count must be at least 1, got {min_count}")
        index, vectors, targets = self.index, self.vectors, self._target_vectors
        if min_count > 1:
            keep = index.holders(self.spelling.codes(self.words)) >= min_count
            rows = index.rows[keep]
            vectors = vectors.rows(np.unique(rows[rows >= 0]))
            index = index.pruned(keep)
            if not len(vectors):
                raise InputError(f"min_count {min_count} would leave no subword; no subword is in that many words")
        if dims is not None:
            directions = principal_directions(self.embed(self.words), dims)
            vectors = vectors.projected(directions)
            targets = None if targets is None else targets @ directions
        if dtype is not None:
            vectors = vectors.astype(dtype)
        steps = {"min_count": min_count, "dtype": vectors.dtype, "dims": vectors.dims}
        info = {**self.info, "compressed": [*self.info.get("compressed", []), steps]}
        return Model(index, self.spelling, vectors, self._packed_words, targets, info)

    # -- files and copies ----------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str], *, card: str | None = None) -> None:
        """Save to a folder, whole or not at all; a model that is already there is replaced in one step.

        Args:
            path: The folder.
            card: The text of its README.md; None for one made from `info`.
        """
        content, offsets = self._packed_words
        tensors = {f"index.{name}": array for name, array in self.index.arrays._asdict().items()}
        tensors |= {"subword_vectors": self.vectors.values, "words.bytes": content, "words.offsets": offsets}
        if self.vectors.scales is not None:
            tensors["subword_scales"] = self.vectors.scales
        if self.vectors.norms is not None:
            tensors["subword_norms"] = self.vectors.norms
        if self._target_vectors is not None:
            tensors["target_vectors"] = self._target_vectors
        storage.save_folder(path, tensors, self.config(), self.card() if card is None else card)

    def config(self) -> dict[str, Any]:
        """Return what config.json holds: sizes, spelling and how the model was made."""
        return {
            "words": self._packed_words[1].size - 1,
            "subwords": len(self.index),
            "vectors": len(self.vectors),
            "dims": self.dims,
            "dtype": self.vectors.dtype,
            "spelling": self.spelling.to_dict(),
            "info": self.info,
        }

    def card(self) -> str:
        """Return a short text about the model, in Markdown, made from `config`."""
        config = self.config()
        facts = {**config, **config.pop("spelling"), **config.pop("info")}
        facts |= facts.pop("training", {})
        if lams := facts.pop("lams", None):
            facts["cosine of words set aside, by lam"] = ", ".join(f"{lam}: {score}" for lam, score in lams.items())
        lines = [f"- {name}: {value}" for name, value in facts.items() if not isinstance(value, (dict, list))]
        return "\n".join(
            [
                "# A pbos model",
                "",
                "A vector for every word, from its spelling. Use it with",
                "",
                "```python",
                "import pbos",
                "",
                'model = pbos.load("path/to/this/folder")',
                'model["unfriendliest"]',
                "```",
                "",
                *lines,
                "",
            ]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.index, self.spelling, self.vectors, self._packed_words, self._target_vectors, self.info)
        return Model, parts

    def copy(self) -> Model:
        """Return a copy that shares nothing with this one, nor with the file it was loaded from."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        size = f"{len(self.vectors):,} subword vectors x {self.dims} {self.vectors.dtype}"
        return f"<Model {self.info.get('preset', '')}: {size}, {self._packed_words[1].size - 1:,} words>"


def load(path: str | PathLike[str] | None = None) -> Model:
    """Load a model folder by mapping it into memory; without a path, the English model that comes with pbos.

    >>> model = load()
    >>> model["unfriendliest"].dtype
    dtype('float32')
    """
    tensors, config = storage.load_folder(EMBEDDED if path is None else path)
    try:
        spelling = Spelling(**config["spelling"])
    except (KeyError, TypeError, InputError) as error:
        raise ModelError(f"{path}: config.json has bad spelling settings ({error})") from None
    index = SubwordIndex(IndexArrays(*(tensors[f"index.{name}"] for name in IndexArrays._fields)))
    optional = (tensors.get(name) for name in ("subword_scales", "subword_norms"))
    vectors = SubwordVectors(tensors["subword_vectors"], *optional)
    words = tensors["words.bytes"], tensors["words.offsets"]
    return Model(index, spelling, vectors, words, tensors.get("target_vectors"), config.get("info") or {})


def unit_rows(vectors: FloatMatrix, near_zero: float = NEAR_ZERO) -> FloatMatrix:
    """Scale rows to length 1; rows no longer than near_zero become zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: FloatMatrix = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > near_zero)
    return units


def cosines(left: FloatMatrix, right: FloatMatrix) -> npt.NDArray[np.float32]:
    """Return the cosine of each row with the row beside it; 0 where one is (nearly) zero."""
    result: npt.NDArray[np.float32] = np.einsum("ij,ij->i", unit_rows(left), unit_rows(right))
    return result


def principal_directions(vectors: FloatMatrix, n: int) -> FloatMatrix:
    """Return the n orthogonal directions along which vectors extend most from the origin, (dims, n)."""
    dims = vectors.shape[1]
    if not 1 <= n <= dims:
        raise InputError(f"dims must be between 1 and the model's {dims}, got {n}")
    _, directions = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)
    largest = directions[:, ::-1][:, :n]
    signs = np.sign(largest[np.abs(largest).argmax(axis=0), np.arange(n)])  # an eigenvector's sign is arbitrary: fix it
    fixed: FloatMatrix = (largest * signs).astype(np.float32)
    return fixed
