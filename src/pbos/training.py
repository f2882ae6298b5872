"""train(): joins the steps from word vectors and word counts to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.counts import WordCounts
from pbos.errors import InputError
from pbos.files import warn
from pbos.kernels.sgd import NO_NORM
from pbos.model import Model, cosines, unit_rows
from pbos.progress import progress as progress_bar
from pbos.segmenter import Spelling
from pbos.solvers import sgd
from pbos.subword_vectors import FloatMatrix, SubwordVectors
from pbos.subwords import SubwordIndex, count_subwords
from pbos.text import normalize, pack_strings
from pbos.vectors import WordVectors
from pbos.weights import word_weights


@dataclass(frozen=True)
class Preset(Spelling):
    """All settings of a model: those of its spelling, and how it is trained.

    Attributes:
        unit_length: Scale subword vectors to length 1 before summing them.
        epochs: How often SGD goes over the words.
        lr: The rate of the first epoch; epoch e (from 0) has lr / sqrt(1 + e).
        min_count: Keep the subwords that at least this many training words hold; 1 keeps all, also those that only
            words without a vector hold.
    """

    unit_length: bool = False
    epochs: int = 50
    lr: float = 1.0
    min_count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs < 1 or not self.lr > 0 or self.min_count < 1:
            raise InputError(
                f"need epochs >= 1, lr > 0 and min_count >= 1, got {self.epochs}, {self.lr} and {self.min_count}"
            )

    @property
    def spelling(self) -> Spelling:
        """The part of the settings that a finished model needs."""
        return Spelling(**{field.name: getattr(self, field.name) for field in fields(Spelling)})


PRESETS = {
    "pbos": Preset(),
    "pbos-n": Preset(unit_length=True),
    "bos": Preset(boundaries=True, min_len=3, max_len=6, weighting="uniform"),
}


def train(
    vectors: WordVectors | str | PathLike[str] | tuple[Any, Any] | Mapping[str, Any] | Any,
    counts: WordCounts | Mapping[str, float] | str | PathLike[str] | None = None,
    *,
    preset: str = "pbos",
    limit: int | None = None,
    heldout: float = 0.0,
    keep_targets: bool = False,
    threads: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **settings: Any,
) -> Model:
    """Train a model: find the subword vectors whose weighted sums come nearest to the given word vectors.

    Args:
        vectors: A vector file (see `WordVectors.read`), WordVectors, a pair (words, matrix), a mapping from words to
            vectors, or gensim's KeyedVectors.
        counts: How often words occur: a file (see `WordCounts.read`), a mapping, a language code ("en", needs the extra
            `wordfreq`), or None for 1/rank in the order of the vectors.
        preset: "pbos", "pbos-n" or "bos", with the settings of the paper.
        limit: Use the first so many words only.
        heldout: A share of the words (0 to 1) to set aside; the mean cosine of their composed with their given vectors
            is reported in `model.info["training"]["heldout_cosine"]`.
        keep_targets: Keep the given vectors in the model, for `embed(..., exact=True)`.
        threads: How many threads to use; None for one a core. The model is the same to the byte for any number.
        seed: Fixes the order of the words and the choice of the held-out ones.
        progress: Show a bar; None for "if stderr is a terminal".
        **settings: Any attribute of `Preset`, instead of the preset's own: boundaries, min_len, max_len, weighting,
            unseen_char_prob, normalization, unit_length, epochs, lr, min_count.

    >>> model = train({"high": [1.0, 0.0], "higher": [1.0, 1.0], "lower": [0.0, 1.0]}, epochs=200)
    >>> model["higher"].round(1).tolist()
    [1.0, 1.0]
    """
    chosen = choose(preset, settings)
    spelling = chosen.spelling
    given = read_vectors(vectors, limit, progress)
    words, targets = unique_words(given, spelling.normalization)
    table = WordCounts.from_ranks(words) if counts is None else WordCounts.of(counts).normalized(spelling.normalization)
    warn_if_strange(table, words)

    hidden = held_out(len(words), heldout, seed)
    kept = np.setdiff1d(np.arange(len(words)), hidden)
    training_words, training_targets = [words[i] for i in kept], targets[kept]
    with progress_bar("counting subwords", None, progress):
        index = make_index(table, training_words, chosen)
        weights = word_weights(
            index,
            spelling.codes(training_words),
            uniform=spelling.weighting == "uniform",
            unseen_char_prob=spelling.unseen_char_prob,
            threads=threads,
        ).merged()
    with progress_bar("training", chosen.epochs, progress) as advance:
        solution = sgd(
            weights,
            training_targets,
            epochs=chosen.epochs,
            lr=chosen.lr,
            seed=seed,
            unit_length=chosen.unit_length,
            threads=threads,
            on_epoch=lambda epoch, loss: advance(1, note=f"epoch {epoch}, loss {loss:.3g}"),
        )
    if not np.isfinite(solution.losses[-1]):
        raise InputError(f"training diverged (loss {solution.losses[-1]}); use a smaller lr than {chosen.lr}")
    # PBoS-n sums directions; kept as directions, its vectors are summed like all others.
    values = unit_rows(solution.vectors, NO_NORM) if chosen.unit_length else solution.vectors
    training = {"seed": seed, "losses": [float(f"{loss:.6g}") for loss in solution.losses]}
    info: dict[str, Any] = {"preset": preset, **asdict(chosen), "training": training}
    given_vectors = np.ascontiguousarray(training_targets) if keep_targets else None
    model = Model(index, spelling, SubwordVectors(values), pack_strings(training_words), given_vectors, info)
    if hidden.size:
        composed = model.embed([words[i] for i in hidden], threads=threads)
        cosine = float(cosines(composed, targets[hidden]).mean())
        training |= {"heldout_words": int(hidden.size), "heldout_cosine": round(cosine, 4)}
    return model


def read_vectors(vectors: Any, limit: int | None, progress: bool | None) -> WordVectors:
    """Take the first words of what was given; of a file no more is read than needed."""
    if isinstance(vectors, (str, PathLike)):
        return WordVectors.read(vectors, limit=limit, progress=progress)
    given = WordVectors.of(vectors)
    return given if limit is None else WordVectors(given.words[:limit], given.vectors[:limit])


def choose(preset: str, settings: dict[str, Any]) -> Preset:
    """Return a preset with some settings changed."""
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}; choose one of: {', '.join(PRESETS)}")
    unknown = set(settings) - {field.name for field in fields(Preset)}
    if unknown:
        names = ", ".join(field.name for field in fields(Preset))
        raise InputError(f"unknown setting {sorted(unknown)[0]!r}; the settings are: {names}")
    return replace(PRESETS[preset], **settings)


def unique_words(given: WordVectors, normalization: str) -> tuple[list[str], FloatMatrix]:
    """Normalise the words; of words that become equal the first is kept."""
    words = normalize(given.words, normalization)
    first = {word: row for row, word in reversed(list(enumerate(words)))}
    if len(first) == len(words):
        return words, given.vectors
    dropped = len(words) - len(first)
    warn(f"{dropped} words are the same as an earlier one after {normalization} normalisation and are dropped")
    rows = sorted(first.values())
    return [words[row] for row in rows], given.vectors[rows]


def warn_if_strange(table: WordCounts, words: list[str]) -> None:
    """Warn when counts and vectors hardly share a word."""
    known = set(table.words)
    shared = sum(word in known for word in words)
    if shared < 0.1 * len(words):
        warn(f"only {shared} of {len(words)} words with a vector have a count; are both in the same language and case?")


def held_out(n_words: int, share: float, seed: int) -> npt.NDArray[np.int64]:
    """Choose the words to set aside, in ascending order."""
    if not 0 <= share < 1:
        raise InputError(f"heldout must be at least 0 and below 1, got {share}")
    size = round(share * n_words)
    if size == n_words:
        raise InputError(f"holding out {share} of {n_words} words would leave none to train on")
    return np.sort(np.random.default_rng(seed).choice(n_words, size, replace=False))


def make_index(table: WordCounts, training_words: list[str], chosen: Preset) -> SubwordIndex:
    """Index the subwords of all counted words and of the training words, whose subwords own vectors."""
    counts = dict(zip(table.words, table.counts.tolist(), strict=True))
    targets = set(training_words)
    words = [*counts, *(word for word in training_words if word not in counts)]
    index = count_subwords(
        words,
        np.array([counts.get(word, 0.0) for word in words]),
        np.array([word in targets for word in words]),
        min_len=chosen.min_len,
        max_len=chosen.max_len,
        boundaries=chosen.boundaries,
    )
    if chosen.min_count > 1:
        index = index.pruned(index.holders(chosen.spelling.codes(training_words)) >= chosen.min_count)
    if not (index.rows >= 0).any():
        raise InputError(
            f"no subword of at least {chosen.min_len} characters is held by at least {chosen.min_count} training words"
        )
    return index
