"""Words to subwords to weights: the one place that spells words, walks the index and weighs subwords."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, ModelError, whole_number
from pbos.jobs.threads import blocks, in_threads, thread_count
from pbos.jobs.workspace import Workspace
from pbos.kernels import lattice, trie
from pbos.kernels.lattice import BOTH, POSTERIOR, UNIFORM
from pbos.kernels.paths import count_letters, segmentations
from pbos.kernels.trie import Nodes
from pbos.kernels.vectors import add_evidence, compose, embed_words, write_squares
from pbos.settings import Spelling
from pbos.words.arrays import FloatMatrix
from pbos.words.confidence import Confidence
from pbos.words.index import SubwordIndex, row_numbers
from pbos.words.readonly import ReadOnlyDict, ReadOnlyList
from pbos.words.text import LEFT, RIGHT, Codes, PackedStrings, encode, lower, mark, normalize, unpack_strings
from pbos.words.variants import Alphabet, Reader
from pbos.words.vectors import SubwordVectors
from pbos.words.weights import Weights, joined

Result = TypeVar("Result")
WEIGHTINGS = {"posterior": POSTERIOR, "uniform": UNIFORM, "both": BOTH}
CHUNK = 4096  # words per thread and step, at most
SMALL_CHUNK = 256  # fewer words are not worth a thread
MOST_CUTS = 1 << 25  # segmentations times characters of the longest word
MOST_DRAWS = 1 << 27  # samples times characters of SMALL_CHUNK words
NOT_RANDOM = np.zeros(0)
CANDIDATES = 4  # per segmentation that is asked for, in words with marks: those with the most probable paths
LEAST = np.float32(1e-3)  # added to lengths before their logarithms are taken


class Segmentation(NamedTuple):
    """One way to cut a word.

    Attributes:
        pieces: Its pieces, without boundary marks; joined, they are the word.
        probability: p(g|w), among all segmentations of that word.
    """

    pieces: tuple[str, ...]
    probability: float

    def __str__(self) -> str:
        return f"{'/'.join(self.pieces)} {self.probability:.3f}"


class WordSpans(NamedTuple):
    """One word and all its spans: span k is ``spelled[begins[k]:ends[k]]``, in this order."""

    word: str  # as the model reads it, without marks
    spelled: str  # with marks
    is_mark: npt.NDArray[np.bool_]  # (length,)
    begins: npt.NDArray[np.int64]  # (n_spans,)
    ends: npt.NDArray[np.int64]  # (n_spans,)
    probs: npt.NDArray[np.float64]  # (n_spans,)
    posteriors: npt.NDArray[np.float64]  # (n_spans,)
    weights: npt.NDArray[np.float64]  # (n_spans,), sum to 1; 0 for subwords without a vector
    log_total: float  # logarithm of the sum over all segmentations


class Subwords:
    """Everything that can be computed from the spelling of words; nothing else calls the lattice kernels."""

    def __init__(
        self,
        index: SubwordIndex,
        spelling: Spelling,
        lengths: npt.NDArray[np.float32] | None = None,
        packed_words: PackedStrings | None = None,
    ) -> None:
        self.index, self.spelling, self._lengths, self._packed_words = index, spelling, lengths, packed_words
        kind = WEIGHTINGS[spelling.weighting]
        self._weighing = spelling.unseen_char_prob, kind, spelling.start_weight, spelling.end_weight

    def __reduce__(self) -> tuple[Any, ...]:  # without the unpacked index
        return unpickle_subwords, (self.index, self.spelling, self._lengths, self._packed_words)

    @cached_property
    def _nodes(self) -> Nodes:
        """The index as the kernels walk it, unpacked on first use."""
        return self.index.unpacked(self._lengths)

    @cached_property
    def _weight_nodes(self) -> Nodes:
        """The index that weights are computed with: for "both", pieces are characters or have a vector."""
        restricted = self.index.for_weights() if self.spelling.weighting == "both" else self.index
        if np.array_equal(restricted.arrays.probs, self.index.arrays.probs):
            return self._nodes
        return restricted.unpacked(self._lengths)

    @property
    def _walk(self) -> tuple[Nodes, tuple[float, int, float, float]]:
        """The index, unpacked, and the settings of weights, as the kernels take them."""
        return self._weight_nodes, self._weighing

    @cached_property
    def words(self) -> list[str]:
        """The training words, in their given order."""
        try:
            return ReadOnlyList([] if self._packed_words is None else unpack_strings(*self._packed_words))
        except UnicodeDecodeError:
            raise ModelError("the model's list of words is damaged; get a fresh copy of the model") from None

    @cached_property
    def word_rows(self) -> dict[str, int]:
        """The position of each training word."""
        return ReadOnlyDict({word: row for row, word in enumerate(self.words)})

    @cached_property
    def _word_codes(self) -> tuple[Any, Any]:
        """The code points of the training words, as a plain tuple for the kernels."""
        codes, offsets = encode(self.words, self.spelling)
        return codes, offsets

    @cached_property
    def _alphabet(self) -> Alphabet:
        return Alphabet(map(chr, self.index.alphabet.tolist()), self.spelling.fallback)

    @cached_property
    def _capitalized(self) -> dict[str, str]:
        """The first training word with capitals of each form in lower case that is not known itself."""
        found: dict[str, str] = {}
        if self.spelling.normalization not in ("lower", "casefold"):
            for word in self.words:
                if word != word.lower() and (form := lower(word)) not in self.word_rows:
                    found.setdefault(form, word)
        return found

    def read(self, words: list[str]) -> list[str]:
        """Return words as the model knows them, see `Reader`; plain words take next to no time."""
        form = self.spelling.normalization
        if self.spelling.fallback == "none":
            return normalize(words, form)
        words = normalize(words, "NFC" if form == "lower" else form)
        find_odd, capitalized = self._alphabet.find_odd, self._capitalized
        if find_odd("".join(words)):
            reader = Reader(self.spelling, self._alphabet, self.word_rows, capitalized, self._log_total)
            return [reader.read(word) if find_odd(word) else capitalized.get(word, word) for word in words]
        return [capitalized.get(word, word) for word in words] if capitalized else words

    def _log_total(self, word: str) -> float:
        """Return the logarithm of the sum over all segmentations of a word that was read."""
        return float(self._inspected(self._nodes, encode([word], self.spelling))[-1])

    # -- one word ------------------------------------------------------------------------------------------------------

    def spans(self, word: str) -> WordSpans:
        """Return all spans of a word, with probabilities, posteriors and weights."""
        (plain,) = self.read([word])
        codes = encode([plain], self.spelling)
        letters = count_letters(*codes, 0, 1, (self.spelling.boundaries, self.spelling.inner_boundaries))
        found = list(self._inspected(self._nodes, codes))
        if self._weight_nodes is not self._nodes:
            found[4] = self._inspected(self._weight_nodes, codes)[4]
        return WordSpans(plain, mark([plain], self.spelling)[0], np.diff(letters) == 0, *found)

    def _inspected(self, nodes: Nodes, word: Codes) -> tuple[Any, ...]:
        """Return what `WordSpans` says about the spans of one word."""
        codes, (unseen_char_prob, kind, start_weight, end_weight) = word.codes, self._weighing
        starts, span_nodes, probs = lattice.find_spans(nodes, unseen_char_prob, *word, 0, 1)
        starts = starts[:-1]
        posteriors, log_total = lattice.span_posteriors(starts, probs)
        begins = np.repeat(np.arange(codes.size), np.diff(starts))
        ends = begins + 1 + np.arange(begins.size) - starts[begins]
        weights = {POSTERIOR: posteriors, UNIFORM: np.ones_like(posteriors), BOTH: posteriors + 1.0}[kind]
        factors = np.where(codes[begins] == ord(LEFT), start_weight, 1.0)
        factors *= np.where(codes[ends - 1] == ord(RIGHT), end_weight, 1.0)
        rows = nodes[2][span_nodes, trie.ROW]
        weights = np.where(rows & trie.LOW_HALF == trie.NO_VECTOR, 0.0, weights * factors)
        total = np.cumsum(weights)[-1]  # from left to right, as the kernels sum
        return begins, ends, probs, posteriors, weights / total if total > 0.0 else weights, log_total

    # -- many words ----------------------------------------------------------------------------------------------------

    def embed(self, words: list[str], vectors: SubwordVectors, out: FloatMatrix, threads: int | None = None) -> None:
        """Write the vectors of words into out, (n_words, dims); a word that is repeated is embedded once per chunk."""
        if len(words) == 1 and threads is None:
            return self._embed_read(self.read(words), 0, vectors, out)

        def embed_chunk(chunk: slice) -> None:
            given = words[chunk]
            distinct = list(dict.fromkeys(given))
            if 2 * len(distinct) > len(given):
                return self._embed_read(self.read(given), chunk.start, vectors, out[chunk])
            composed = np.empty((len(distinct), out.shape[1]), np.float32)
            try:
                self._embed_read(self.read(distinct), 0, vectors, composed)
            except InputError:
                encode(given, self.spelling, chunk.start)  # raises with the position among all words
                raise
            rows = {word: row for row, word in enumerate(distinct)}
            np.take(composed, [rows[word] for word in given], axis=0, out=out[chunk])

        _ = self._weight_nodes  # unpacked before there are threads
        map_chunks(embed_chunk, len(words), threads)

    def _embed_read(self, words: list[str], first: int, vectors: SubwordVectors, out: FloatMatrix) -> None:
        codes = encode(words, self.spelling, first)
        embed_words(self._weight_nodes, self._weighing, *codes, *vectors.kernel_arguments, out)

    def confidence(
        self, words: list[str], vectors: SubwordVectors, confidence: Confidence, threads: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the confidence of words: for training words see `Confidence.near`; 0 without subwords."""
        known, form = self.word_rows, self.spelling.normalization
        found = np.empty(len(words), np.float32)

        def write_chunk(chunk: slice) -> None:
            read, out = self.read(words[chunk]), found[chunk]
            features = self.features(read, vectors, confidence, chunk.start)
            out[:] = confidence.predict(features)
            out[features[:, -3] == 0] = 0  # no subwords
            if training := known.keys() & read:
                for at, (word, given) in enumerate(zip(read, words[chunk], strict=True)):
                    if word in training and word == normalize([given], form)[0]:  # not only read as a training word
                        out[at] = confidence.near(known[word])

        _ = self._weight_nodes  # unpacked before there are threads
        map_chunks(write_chunk, len(words), threads)
        return found

    def features(
        self, words: list[str], vectors: SubwordVectors, confidence: Confidence, first: int = 0
    ) -> npt.NDArray[np.float32]:
        """Return what `Confidence.predict` needs about words that were read, (n_words, n_features)."""
        codes = encode(words, self.spelling, first)
        bits, negligible, _ = vectors.kernel_arguments
        weighed = lattice.weights_of_words(self._weight_nodes, self._weighing, *codes, negligible)
        indptr, indices, data, log_totals = weighed
        n_letters = np.diff(codes.offsets)
        out = np.zeros((len(words), confidence.evidence.shape[1] + 5), np.float32)
        add_evidence(indptr, indices, data, confidence.evidence.view(np.uint16), out)
        if vectors.scales is not None:
            data *= vectors.scales[indices]
        composed = np.empty((len(words), vectors.dims), np.float32)
        compose(indptr, indices, data, bits, composed)
        squares = np.empty((len(words), 2), np.float32)
        write_squares(composed, confidence.mean, squares)
        out[:, -5:-3] = np.sqrt(squares) / confidence.scale + LEAST
        out[:, -3] = np.diff(indptr) + 1
        out[:, -2] = n_letters
        np.log(out[:, -5:-1], out=out[:, -5:-1])
        out[:, -1] = log_totals / n_letters
        return out

    def segment(self, words: list[str], n: int, threads: int | None = None) -> list[list[Segmentation]]:
        """Return the n most probable segmentations of each word, best first."""
        n = whole_number("n", n, 1)
        most = max(1, CHUNK // n)  # as many segmentations would take much memory at once
        found = map_chunks(lambda chunk: self._segmentations(words[chunk], chunk.start, n), len(words), threads, most)
        return list(itertools.chain.from_iterable(found))

    def sample(
        self, words: list[str], k: int, seed: int | None = None, *, first: int = 0, threads: int | None = None
    ) -> list[list[Segmentation]]:
        """Draw k segmentations of each word from p(g|w), by the seed and the position of the word, from `first` on.

        Batches of a multiple of SMALL_CHUNK words, with the same seed and their own `first`, draw what one call would.
        """
        k = whole_number("k", k, 0)
        entropy = np.random.SeedSequence(None if seed is None else whole_number("seed", seed, 0)).entropy
        if k == 0:
            return [[] for _ in words]

        def sample_chunk(at: int) -> list[list[Segmentation]]:
            random = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(first + at,)))
            return self._segmentations(words[at : at + SMALL_CHUNK], first + at, k, random)

        found = in_threads(sample_chunk, range(0, len(words), SMALL_CHUNK), threads)
        return list(itertools.chain.from_iterable(found))

    def _segmentations(
        self, words: list[str], first: int, n: int, random: np.random.Generator | None = None
    ) -> list[list[Segmentation]]:
        """Return the n best segmentations of each word, or with a random generator n random ones."""
        plain = self.read(words)
        codes = encode(plain, self.spelling, first)
        longest = int(np.diff(codes.offsets).max(initial=0))
        if random is None:
            n, n_characters, most = min(n, 1 << min(longest, 62)), longest, MOST_CUTS  # no word has more
        else:
            n_characters, most = codes.codes.size, MOST_DRAWS
        if n * n_characters > most:
            raise InputError(
                f"{n:,} segmentations of {n_characters:,} characters are too many; "
                f"ask for at most {most // n_characters:,}"
            )
        uniforms = NOT_RANDOM if random is None else random.random(n * n_characters)
        n_paths = CANDIDATES * n if random is None and self.spelling.boundaries else n
        marks, keys = (self.spelling.boundaries, self.spelling.inner_boundaries), letter_keys(longest.bit_length())
        found = segmentations(self._nodes, self._weighing[0], *codes, marks, keys, n_paths, uniforms)
        return as_segmentations(plain, found, n if random is None else None)

    def weights(self, words: list[str], threads: int | None = None) -> Weights:
        """Return the weights of words; a subword that occurs twice in a word has two entries."""
        return self.weights_of_codes(encode(self.read(words), self.spelling), threads)

    # -- words as code points, for training ----------------------------------------------------------------------------

    def weights_of_codes(self, words: Codes, threads: int | None = None) -> Weights:
        """Return what `weights` returns, for words that are encoded already."""
        nodes, n_columns = self._weight_nodes, self.index.n_vectors

        def weigh_chunk(chunk: slice) -> Weights:
            part = words.part(chunk.start, chunk.stop)
            indptr, indices, data, _ = lattice.weights_of_words(nodes, self._weighing, *part, 0.0)
            return Weights(indptr, indices, data, n_columns)

        return joined(map_chunks(weigh_chunk, words.offsets.size - 1, threads), Workspace())

    def count_words(self, words: Codes) -> npt.NDArray[np.int32]:
        """Return for each node of the index how many of the words contain it."""
        return np.asarray(lattice.count_words(self._nodes, *words))

    def rows_of_whole_words(self, words: Codes) -> npt.NDArray[np.int64]:
        """Return for each word the row of the vector that it has as a whole, -1 if it has none."""
        rows = np.full(words.offsets.size - 1, -1, np.int64)
        for chunk in blocks(rows.size, CHUNK):
            starts, nodes, _ = lattice.find_spans(self._nodes, 1.0, *words, chunk.start, chunk.stop)
            lengths = np.diff(words.offsets[chunk.start : chunk.stop + 1])
            slots = np.cumsum(lengths + 1) - lengths - 1  # where each word starts
            longest = nodes[starts[slots + 1] - 1]
            is_whole = (starts[slots + 1] - starts[slots] == lengths) & (longest >= 0)
            rows[chunk][is_whole] = row_numbers(self.index.arrays.rows[longest[is_whole]]).astype(np.int64) - 1
        return rows

    def expected_counts(self, words: Codes, counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return how often each node of the index is expected as a piece of words."""
        return np.asarray(lattice.expected_counts(self._nodes, self.spelling.unseen_char_prob, *words, counts))


_last_received: dict[tuple[Any, ...], Subwords] = {}


def unpickle_subwords(*parts: Any) -> Subwords:
    """Return unpickled subwords; the last ones, with their index unpacked, if they come from the same files."""
    paths: list[Any] = [getattr(array, "path", None) for array in parts[0].arrays]
    if None in paths:
        return Subwords(*parts)
    key = parts[1], *((path, Path(path).stat().st_mtime_ns) for path in paths)
    found = _last_received.get(key) or Subwords(*parts)
    _last_received.clear()
    _last_received[key] = found
    return found


received = unpickle_subwords  # its name in pickles of version 0.1


def map_chunks(
    function: Callable[[slice], Result], n_words: int, threads: int | None, most: int = CHUNK
) -> list[Result]:
    """Apply a function to slices of words, in threads: about eight per thread, so that threads finish together."""
    if n_words <= SMALL_CHUNK and threads is None:
        return [function(slice(0, n_words))]
    size = min(most, max(SMALL_CHUNK, -(-n_words // (8 * thread_count(threads)))))
    return in_threads(function, list(blocks(n_words, size)) or [slice(0, 0)], threads)


@functools.lru_cache(maxsize=16)
def letter_keys(n_bits: int) -> npt.NDArray[np.int64]:
    """Return 2**n_bits random numbers by which the kernels compare cuts, always the same ones."""
    return np.random.default_rng(0).integers(1 << 63, size=1 << n_bits, dtype=np.int64)


def as_segmentations(words: list[str], arrays: tuple[Any, Any, Any], n: int | None) -> list[list[Segmentation]]:
    """Return the n best segmentations that the kernel found of each word, equal ones in order; all if n is None."""
    word_indptr, probabilities, cuts = arrays
    firsts = np.flatnonzero(cuts == 0)
    if len(words) == 1:  # loops are faster than arrays
        (word,), places, probs, begins = words, cuts.tolist(), probabilities.tolist(), [*firsts.tolist(), cuts.size]
        order = list(range(len(probs)))
        if n is not None:
            order = sorted(order, key=probs.__getitem__, reverse=True)[:n]
        parts = [places[begins[at] : begins[at + 1]] for at in order]
        pieces = [tuple([word[begin:end] for begin, end in itertools.pairwise(part)]) for part in parts]
        return [list(map(Segmentation, pieces, [probs[at] for at in order]))]
    of_word, sizes = np.repeat(np.arange(len(words)), np.diff(word_indptr)), np.diff(firsts, append=cuts.size) - 1
    if n is not None:
        rank = np.arange(of_word.size) - word_indptr[of_word]
        chosen = np.lexsort((-probabilities, of_word))[rank < n]
        of_word, firsts, sizes, probabilities = of_word[chosen], firsts[chosen], sizes[chosen], probabilities[chosen]
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    at = np.arange(bounds[-1]) + np.repeat(firsts - bounds[:-1], sizes)  # the first cut of each piece
    spelled = map(words.__getitem__, np.repeat(of_word, sizes).tolist())
    spans = zip(spelled, cuts[at].tolist(), cuts[at + 1].tolist(), strict=True)
    all_pieces = [word[begin:end] for word, begin, end in spans]
    tuples = [tuple(all_pieces[first:last]) for first, last in itertools.pairwise(bounds.tolist())]
    pairs = zip(tuples, probabilities.tolist(), strict=True)
    found = list(map(tuple.__new__, itertools.repeat(Segmentation), pairs))  # faster than Segmentation(*pair)
    ends = np.searchsorted(of_word, np.arange(len(words) + 1)).tolist()
    return [found[first:last] for first, last in itertools.pairwise(ends)]
