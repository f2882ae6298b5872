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
from pbos.solvers import LAMS, SEARCH_DIMS, Ridge, Solution, choose_lam, sgd
from pbos.spelling import Spelling
from pbos.subword_vectors import FloatMatrix, SubwordVectors
from pbos.subwords import SubwordIndex, count_subwords, reestimated
from pbos.text import BOUNDARIES, Codes, normalize, pack_strings
from pbos.vectors import WordVectors
from pbos.weights import Weights, word_weights

SOLVERS = ("sgd", "ridge")


@dataclass(frozen=True)
class Preset(Spelling):
    """All settings of a model: those of its spelling, and how it is trained.

    Attributes:
        types: Count every word once, instead of by its count, for the subword probabilities.
        round_probs: Round these to 255 levels, so that they take a byte each.
        min_piece_count: A subword of several characters needs this many words that hold it to have a probability.
        em_rounds: How often to fit the subword probabilities to the words by EM.
        min_count: Keep the subwords that at least this many training words hold; 1 keeps all, also those that only
            words without a vector hold.
        merge: Give one vector to the subwords that the same training words hold, as nothing tells them apart.
        max_vectors: Keep at most this many vectors, those that matter most, and train them again without the others.
        solver: "ridge" for ridge regression, "sgd" for the paper's stochastic gradient descent.
        lam: For ridge: the strength of the penalty on subword vectors; "auto" chooses it by words set aside.
        unit_length: For sgd: scale subword vectors to length 1 before summing them.
        epochs: For sgd: how often to go over the words.
        lr: For sgd: the rate of the first epoch; epoch e (from 0) has lr / sqrt(1 + e).
    """

    types: bool = False
    round_probs: bool = False
    min_piece_count: int = 1
    em_rounds: int = 0
    min_count: int = 1
    merge: bool = False
    max_vectors: int | None = None
    solver: str = "sgd"
    lam: float | str = "auto"
    unit_length: bool = False
    epochs: int = 50
    lr: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least = {"min_piece_count": 1, "em_rounds": 0, "min_count": 1, "epochs": 1, "max_vectors": 1}
        for name, least in at_least.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, got {value}")
        if not self.lr > 0:
            raise InputError(f"lr must be above 0, got {self.lr}")
        if self.solver not in SOLVERS:
            raise InputError(f"unknown solver {self.solver!r}; choose one of: {', '.join(SOLVERS)}")
        if self.lam != "auto" and not (isinstance(self.lam, (int, float)) and 0 < self.lam < np.inf):
            raise InputError(f'lam must be a number above 0, or "auto", got {self.lam!r}')
        if self.unit_length and self.solver != "sgd":
            raise InputError('unit_length is for solver="sgd" only: ridge regression needs words that are plain sums')

    @property
    def spelling(self) -> Spelling:
        """The part of the settings that a finished model needs."""
        return Spelling(**{field.name: getattr(self, field.name) for field in fields(Spelling)})


PRESETS = {
    "default": Preset(
        boundaries=True,
        inner_boundaries=True,
        weighting="both",
        start_weight=4.0,
        end_weight=2.0,
        types=True,
        round_probs=True,
        min_piece_count=2,
        em_rounds=2,
        merge=True,
        solver="ridge",
    ),
    "pbos": Preset(),
    "pbos-n": Preset(unit_length=True),
    "bos": Preset(boundaries=True, min_len=3, max_len=6, weighting="uniform"),
}


def train(
    vectors: WordVectors | str | PathLike[str] | tuple[Any, Any] | Mapping[str, Any] | Any,
    counts: WordCounts | Mapping[str, float] | str | PathLike[str] | None = None,
    *,
    preset: str = "default",
    limit: int | None = None,
    heldout: float = 0.0,
    keep_targets: bool = False,
    threads: int | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **settings: Any,
) -> Model:
    """Train a model: find the subword vectors whose weighted sums come nearest to the given word vectors.

    Args:
        vectors: A vector file (see `WordVectors.read`), WordVectors, a pair (words, matrix), a mapping from words to
            vectors, or gensim's KeyedVectors.
        counts: How often words occur: a file (see `WordCounts.read`), a mapping, a language code ("en", needs the extra
            `wordfreq`), or None for 1/rank in the order of the vectors. The preset "default" counts every word once, so
            it needs none.
        preset: "default", or "pbos", "pbos-n" or "bos" with the settings of the paper.
        limit: Use the first so many words only.
        heldout: A share of the words (0 to 1) to set aside; the mean cosine of their composed with their given vectors
            is reported in `model.info["training"]["heldout_cosine"]`.
        keep_targets: Keep the given vectors in the model, for `embed(..., exact=True)`.
        threads: How many threads to use; None for one a core. The model is the same to the byte for any number.
        device: Where to do ridge regression: "cuda", "cuda:1" or another device of PyTorch (extra `torch`), which gives
            a model as good as the CPU's, but not the same; where there is none, it is done on the CPU. None for the
            CPU.
        seed: Fixes the order of the words and the choice of those set aside.
        progress: Show a bar; None for "if stderr is a terminal".
        **settings: Any attribute of `Preset`, instead of the preset's own: boundaries, inner_boundaries, min_len,
            max_len, weighting, start_weight, end_weight, unseen_char_prob, normalization, types, round_probs,
            min_piece_count, em_rounds, min_count, merge, max_vectors, solver, lam, unit_length, epochs, lr.

    >>> model = train({"high": [1.0, 0.0], "higher": [1.0, 1.0], "lower": [0.0, 1.0]}, lam=1e-4)
    >>> model["higher"].round(1).tolist()
    [1.0, 1.0]
    """
    chosen = choose(preset, settings)
    solve_on = choose_device(device, chosen)
    given = read_vectors(vectors, limit, progress)
    words, targets = unique_words(given, chosen.normalization)
    table = WordCounts.from_ranks(words) if counts is None else WordCounts.of(counts).normalized(chosen.normalization)
    warn_if_strange(table, words)

    hidden = held_out(len(words), heldout, seed)
    kept = np.setdiff1d(np.arange(len(words)), hidden)
    training_words, training_targets = [words[i] for i in kept], targets[kept]
    with progress_bar("counting subwords", None, progress):
        index = make_index(table, training_words, chosen, threads)
        index, weights, penalty = make_weights(index, training_words, chosen, threads)
    if chosen.max_vectors is not None and weights.n_columns > chosen.max_vectors:
        with progress_bar("choosing subwords", None, progress):
            importance = importances(weights, training_targets, penalty, chosen, seed, threads, solve_on)
            index = most_important(index, importance, table, training_words, chosen, threads)
            index, weights, penalty = make_weights(index, training_words, chosen, threads)
    solution = solve(weights, training_targets, penalty, chosen, seed, threads, progress, solve_on)
    # PBoS-n sums directions; kept as directions, its vectors are summed like all others.
    values = unit_rows(solution.vectors, NO_NORM) if chosen.unit_length else solution.vectors
    training = {"seed": seed, **solution.report}
    info: dict[str, Any] = {"preset": preset, **asdict(chosen), "training": training}
    given_vectors = np.ascontiguousarray(training_targets) if keep_targets else None
    model = Model(index, chosen.spelling, SubwordVectors.of(values), pack_strings(training_words), given_vectors, info)
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
    if settings.get("boundaries") is False:  # then the preset's settings that need them go too
        settings = {"inner_boundaries": False, "start_weight": 1.0, "end_weight": 1.0, **settings}
    return replace(PRESETS[preset], **settings)


def choose_device(device: str | None, chosen: Preset) -> Any:
    """Return PyTorch's device to solve on; None for the CPU."""
    if device is None or device == "cpu":
        return None
    if chosen.solver == "sgd":
        raise InputError(f'device {device!r} is for solver="ridge" only: SGD takes one word after the other')
    from pbos import gpu  # here, as PyTorch takes its time

    return gpu.find_device(device, "training")


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


def counted_words(
    table: WordCounts, training_words: list[str], chosen: Preset
) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return the words that subword probabilities come from, and how often to count each."""
    known = set(table.words)
    others = [word for word in training_words if word not in known]
    counts = np.concatenate([table.counts, np.zeros(len(others))])
    return [*table.words, *others], np.ones_like(counts) if chosen.types else counts


def make_index(
    table: WordCounts, training_words: list[str], chosen: Preset, threads: int | None = None
) -> SubwordIndex:
    """Index the subwords of all counted words and of the training words, whose subwords own vectors."""
    words, counts = counted_words(table, training_words, chosen)
    codes, targets = chosen.codes(words), set(training_words)
    index = count_subwords(
        codes,
        counts,
        np.array([word in targets for word in words]),
        min_len=chosen.min_len,
        max_len=chosen.max_len,
        min_holders=chosen.min_piece_count,
        boundaries=chosen.boundaries,
    )
    if chosen.min_piece_count > 1:
        index = index.pruned((index.probs > 0) | (index.rows >= 0))
    if chosen.min_count > 1:
        index = index.pruned(index.holders(chosen.codes(training_words)) >= chosen.min_count)
    if not index.arrays.rows.any():
        raise InputError(
            f"no subword of at least {chosen.min_len} characters is held by at least {chosen.min_count} training words"
        )
    return fitted(index, codes, counts, chosen, threads)


def fitted(
    index: SubwordIndex, words: Codes, counts: npt.NDArray[np.float64], chosen: Preset, threads: int | None
) -> SubwordIndex:
    """Return the index with its probabilities fitted and rounded as chosen."""
    unseen = chosen.unseen_char_prob
    index = reestimated(index, words, counts, rounds=chosen.em_rounds, unseen_char_prob=unseen, threads=threads)
    return index.with_prob_levels() if chosen.round_probs else index


def make_weights(
    index: SubwordIndex, training_words: list[str], chosen: Preset, threads: int | None
) -> tuple[SubwordIndex, Weights, npt.NDArray[np.float64]]:
    """Return the training words' weights, and what each subword vector costs; of merged subwords, the sum.

    A subword that weighs more for where it stands costs more in the same proportion, so that a vector that goes to it
    is as likely to be large as its weight says.
    """
    weights = word_weights(index, chosen.codes(training_words), chosen.spelling, threads=threads).merged()
    rows = index.rows
    owners = np.flatnonzero(rows >= 0)
    if chosen.merge:
        numbers = weights.columns_of_same_words()
        weights = weights.renumbered(numbers)
        rows[owners] = numbers[rows[owners]]
        index = index.with_rows(rows)
    penalty = np.zeros(weights.n_columns)
    np.add.at(penalty, rows[owners], end_factors(index, chosen)[owners])
    return index, weights, penalty


def end_factors(index: SubwordIndex, spelling: Spelling) -> npt.NDArray[np.float64]:
    """Return for each node how much more it weighs for beginning or ending with a mark."""
    if spelling.start_weight == spelling.end_weight == 1:
        return np.ones(len(index) + 1)
    left, right = map(ord, BOUNDARIES)
    first = index.parents()  # becomes the node of its first character: of half the way up, half the way up
    characters = slice(index.alphabet.size + 1)
    first[characters] = np.arange(index.alphabet.size + 1)
    while not np.array_equal(first, further := first[first]):
        first = further
    last = index.code_points
    starts = np.where(last[first] == left, spelling.start_weight, 1.0)
    return starts * np.where(last == right, spelling.end_weight, 1.0)


def solve(
    weights: Weights,
    targets: FloatMatrix,
    penalty: npt.NDArray[np.float64],
    chosen: Preset,
    seed: int,
    threads: int | None,
    progress: bool | None,
    device: Any = None,
) -> Solution:
    """Find the subword vectors by the chosen solver; ridge regression on a device, where there is one."""
    if chosen.solver == "sgd":
        with progress_bar("training", chosen.epochs, progress) as advance:
            return sgd(
                weights,
                targets,
                epochs=chosen.epochs,
                lr=chosen.lr,
                seed=seed,
                unit_length=chosen.unit_length,
                threads=threads,
                on_epoch=lambda epoch, loss: advance(1, note=f"epoch {epoch}, loss {loss:.3g}"),
            )
    lam = chosen.lam
    tried: dict[str, float] = {}
    if isinstance(lam, str):
        with progress_bar("choosing lam", len(LAMS), progress) as advance:
            lam, tried = choose_lam(
                weights,
                targets,
                penalty,
                seed=seed,
                threads=threads,
                device=device,
                on_try=lambda lam, score: advance(1, note=f"lam {lam:g}, cosine {score:.4f}"),
            )
    with progress_bar("training", targets.shape[1], progress) as advance:
        ridge = Ridge(weights, penalty)
        solution = ridge.solve(targets, float(lam), threads=threads, device=device, on_slice=lambda dims: advance(dims))
    return Solution(solution.vectors, {**solution.report, **({"lams": tried} if tried else {})})


def importances(
    weights: Weights,
    targets: FloatMatrix,
    penalty: npt.NDArray[np.float64],
    chosen: Preset,
    seed: int,
    threads: int | None,
    device: Any = None,
) -> npt.NDArray[np.float64]:
    """Return how much each subword vector adds to the words' vectors: its squared length times its squared weights.

    Lengths are measured along some random directions, which is enough to rank them.
    """
    if targets.shape[1] > SEARCH_DIMS:
        random = np.random.default_rng(seed)
        targets = targets @ random.standard_normal((targets.shape[1], SEARCH_DIMS)).astype(np.float32)
    solution = solve(weights, targets, penalty, chosen, seed, threads, progress=False, device=device)
    lengths = np.einsum("ij,ij->i", solution.vectors, solution.vectors, dtype=np.float64)
    squares = np.bincount(weights.indices, weights.data.astype(np.float64) ** 2, minlength=weights.n_columns)
    importance: npt.NDArray[np.float64] = lengths * squares
    return importance


def most_important(
    index: SubwordIndex,
    importance: npt.NDArray[np.float64],
    table: WordCounts,
    training_words: list[str],
    chosen: Preset,
    threads: int | None,
) -> SubwordIndex:
    """Return the index of the subwords that own one of the most important vectors, with probabilities fitted anew.

    Single characters stay too, so that every word can still be spelled.
    """
    kept = np.zeros(importance.size, np.bool_)
    kept[np.argsort(-importance, kind="stable")[: chosen.max_vectors]] = True
    rows = index.rows
    keep = (rows >= 0) & kept[rows]
    keep[: index.alphabet.size + 1] = True
    lost = keep & (rows >= 0) & ~kept[rows]
    index = index.with_rows(np.where(lost, -1, rows)).pruned(keep)
    probs = index.probs / index.probs.sum(dtype=np.float64)
    index = index.with_probs(probs.astype(np.float32))
    words, counts = counted_words(table, training_words, chosen)
    return fitted(index, chosen.codes(words), counts, chosen, threads)
