"""Part-of-speech tagging as the paper measures it: logistic regression over the vectors of a word and its neighbors.

The features of a token are the vectors of w[i-2] ... w[i+2], side by side; the classifier is the textbook's (minimise
the sum of the log losses plus |weights|^2 / 2c). Two things make it fast, and neither changes its solution:

- Words repeat. Each distinct word is multiplied by the weights once, and a token's scores are the sum of five rows of
  that product (`Windows`), so the wide matrix of features is never made.
- Word vectors are badly scaled, and L-BFGS then needs hundreds of steps. It runs in other coordinates, in which the
  loss is about equally curved in all directions (`coordinates`). Penalty and loss stay those of the plain weights: to
  scale the features themselves would change the penalty, and the paper does not do so.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, MissingExtraError
from pbos.evaluation.results import Embedder, Result, Score, bootstrap
from pbos.files import warn

Sentence = Sequence[tuple[str, str]]  # words with their tags
Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]

OUTSIDE = 0  # the row of the zero vector, which stands before and after a sentence
SAMPLE = 10_000  # tokens the coordinates are found from: they need only be about right
CURVATURE = 0.05  # a token's typical p (1 - p) for a tag; from 0.02 to 0.1 the number of steps hardly changes
# A step that lowers the mean log loss by less ends the search. In English that is step 49, 0.001 above the lowest loss
# (0.351); from there on, accuracy on the test words moves by a few hundredths of a point.
TOLERANCE = 2e-5
MOST_STEPS = 1000


def tagging(
    model: Embedder,
    train: Sequence[Sentence],
    test: Sequence[Sentence],
    *,
    language: str,
    known: Container[str] | None = None,
    c: float = 1.0,
    window: int = 2,
    lowercase: bool = True,
    seed: int = 0,
) -> Result:
    """Train a tagger on the vectors a model gives, and report the share of test words it tags right.

    Intervals come from drawing sentences, since the words of one sentence are not independent.

    Args:
        model: Gives the vectors; each distinct word is asked for once.
        train: Sentences, each a list of (word, tag).
        test: The same; a tag that training has not seen counts as wrong.
        language: Names the data set in the result.
        known: The words that had a target vector (a set, WordVectors, anything that answers `in`); where given, the
            accuracy on all other words is reported too.
        c: The larger, the weaker the penalty, as in scikit-learn.
        window: How many neighbors on each side.
        lowercase: Lower-case words before asking for their vectors, and before looking them up in `known`.
        seed: Fixes the draws.

    >>> class Lengths:
    ...     dims = 1
    ...     def embed(self, words):
    ...         return np.array([[len(word)] for word in words], np.float32)
    >>> sentences = [[("a", "DET"), ("house", "NOUN")], [("the", "DET"), ("garden", "NOUN")]]
    >>> tagging(Lengths(), sentences, [[("an", "DET"), ("engine", "NOUN")]], language="en").main.value
    1.0
    """
    if not 0 < c < np.inf or window < 0:
        raise InputError(f"need c > 0 and window >= 0, got {c} and {window}")
    learn, probe = flatten(train, "training", lowercase), flatten(test, "test", lowercase)
    rows = {word: row for row, word in enumerate(dict.fromkeys(chain(learn.words, probe.words)), OUTSIDE + 1)}
    vectors = embed_words(model, list(rows))
    names = sorted(set(learn.tags))
    tag_ids = {tag: i for i, tag in enumerate(names)}

    windows = Windows(vectors, contexts(learn, rows, window))
    theta = fit(windows, np.array([tag_ids[tag] for tag in learn.tags]), len(names), c=c, seed=seed)
    best = Windows(vectors, contexts(probe, rows, window)).scores(theta).argmax(axis=1)
    right = best == np.array([tag_ids.get(tag, -1) for tag in probe.tags])

    scores = {"accuracy": accuracy(right, np.ones_like(right), probe, seed)}
    details: dict[str, Any] = {"language": language, "c": c, "window": window, "lowercase": lowercase}
    details |= {"tags": len(names), "training_words": len(learn.words), "test_words": len(probe.words)}
    details |= {"training_sentences": len(learn.lengths), "test_sentences": len(probe.lengths)}
    if known is not None:
        unknown_words = {word for word in set(probe.words) if word not in known}
        unknown = np.array([word in unknown_words for word in probe.words])
        details["unknown_share"] = float(unknown.mean())
        if unknown.any():
            scores["accuracy, unknown words"] = accuracy(right, unknown, probe, seed)
    return Result("tagging", language, scores, details)


# Data -----------------------------------------------------------------------------------------------------------------


class Tokens(NamedTuple):
    """Sentences put end to end."""

    words: list[str]
    tags: list[str]
    lengths: Ints  # of each sentence

    @property
    def sentence(self) -> Ints:
        """The number of each token's sentence."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


def flatten(sentences: Sequence[Sentence], name: str, lowercase: bool) -> Tokens:
    """Put sentences end to end; those without words are left out."""
    sentences = [sentence for sentence in sentences if len(sentence)]
    if not sentences:
        raise InputError(f"the {name} set holds no words; tagging needs at least one sentence there")
    words = [word.lower() if lowercase else word for sentence in sentences for word, _ in sentence]
    tags = [tag for sentence in sentences for _, tag in sentence]
    return Tokens(words, tags, np.array([len(sentence) for sentence in sentences]))


def embed_words(model: Embedder, words: list[str]) -> Floats:
    """Return the words' vectors, below the zero vector that stands outside sentences."""
    vectors = np.asarray(model.embed(words), np.float32)
    if not np.isfinite(vectors).all():
        word = words[int(np.argmin(np.isfinite(vectors).all(axis=1)))]
        raise InputError(f"the model's vector of {word!r} holds NaN or infinity; tagging needs finite vectors")
    return np.concatenate([np.zeros((OUTSIDE + 1, vectors.shape[1]), np.float32), vectors])


def contexts(tokens: Tokens, rows: dict[str, int], window: int) -> Ints:
    """Return the rows of each token's neighbors and its own, (n_tokens, 2 window + 1).

    >>> tokens = flatten([[("a", "DET"), ("house", "NOUN")]], "test", lowercase=True)
    >>> contexts(tokens, {"a": 1, "house": 2}, window=1).tolist()
    [[0, 1, 2], [1, 2, 0]]
    """
    ids = np.array([rows[word] for word in tokens.words])
    sentence = tokens.sentence
    places = np.arange(len(ids))[:, None] + np.arange(-window, window + 1)
    near = places.clip(0, len(ids) - 1)
    inside = (near == places) & (sentence[near] == sentence[:, None])
    return np.where(inside, ids[near], OUTSIDE)


# Logistic regression --------------------------------------------------------------------------------------------------


class Windows:
    """The features of tokens: conceptually vectors[contexts], (n_tokens, width * dims), but never made as a whole.

    Weights are theta, (width * dims + 1, n_tags); the last row is the intercept.
    """

    def __init__(self, vectors: Floats, contexts: Ints) -> None:
        self.vectors = vectors  # (n_words, dims); float32 for speed, float64 where a test wants every digit
        self.contexts = contexts  # (n_tokens, width)
        n_tokens, width = contexts.shape
        columns = contexts * width + np.arange(width)
        ones = np.ones(contexts.size, vectors.dtype)
        starts = np.arange(0, contexts.size + 1, width)
        shape = n_tokens, len(vectors) * width
        # picks @ (what each word adds at each offset) = the tokens' sums; the transpose sends residuals back to words.
        self.picks = load_scipy().sparse.csr_matrix((ones, columns.ravel(), starts), shape=shape)
        self.picks_by_word = self.picks.T.tocsr()

    def scores(self, theta: Floats) -> Floats:
        """Return each token's score for each tag, (n_tokens, n_tags)."""
        dims, width, n_tags = self.vectors.shape[1], self.contexts.shape[1], theta.shape[1]
        weights = theta[:-1].reshape(width, dims, n_tags).transpose(1, 0, 2).reshape(dims, width * n_tags)
        by_word = self.vectors @ weights.astype(self.vectors.dtype)  # (n_words, width * n_tags)
        scores: Floats = self.picks @ by_word.reshape(-1, n_tags)
        scores += theta[-1].astype(scores.dtype)
        return scores

    def gradient(self, residuals: Floats) -> npt.NDArray[np.float64]:
        """Return the gradient by theta, given that by the scores: the transpose of what `scores` does."""
        dims, width, n_tags = self.vectors.shape[1], self.contexts.shape[1], residuals.shape[1]
        by_word = (self.picks_by_word @ residuals).reshape(len(self.vectors), width * n_tags)
        weights = (self.vectors.T @ by_word).reshape(dims, width, n_tags).transpose(1, 0, 2)
        intercept = residuals.sum(axis=0, dtype=np.float64)
        return np.concatenate([weights.reshape(width * dims, n_tags), intercept[None]])

    def features(self, tokens: Ints | slice) -> npt.NDArray[np.float64]:
        """Return the features of some tokens as they are, with a last column of ones for the intercept."""
        picked = self.vectors[self.contexts[tokens]]  # (n, width, dims)
        flat = picked.reshape(len(picked), -1)
        return np.hstack([flat, np.ones((len(flat), 1))])


def log_loss(theta: Floats, windows: Windows, tags: Ints, c: float) -> tuple[float, npt.NDArray[np.float64]]:
    """Return what is minimised, sum of -log p(tag) + |weights|^2 / 2c, and its gradient; the intercept is free."""
    scores = windows.scores(theta)
    scores -= scores.max(axis=1, keepdims=True)  # so that exp cannot overflow
    tokens = np.arange(len(tags))
    right = scores[tokens, tags]
    probs = np.exp(scores, out=scores)
    totals = probs.sum(axis=1, keepdims=True)
    probs /= totals
    probs[tokens, tags] -= 1  # from here on the gradient by the scores
    gradient = windows.gradient(probs)
    gradient[:-1] += theta[:-1] / c
    penalty = float(np.sum(theta[:-1] ** 2)) / (2 * c)
    return float(np.log(totals).sum(dtype=np.float64) - right.sum(dtype=np.float64)) + penalty, gradient


def coordinates(windows: Windows, c: float, seed: int) -> npt.NDArray[np.float64]:
    """Return a matrix A for theta = A u such that, as a function of u, the loss curves about alike everywhere.

    The second derivative for one tag is X' diag(p (1 - p)) X + I / c. With p (1 - p) put at a constant, and X'X taken
    from a sample, it is one matrix H = L L' for all tags; A = inverse(L') turns it into the identity.
    """
    n_tokens = len(windows.contexts)
    sample = np.random.default_rng(seed).permutation(n_tokens)[:SAMPLE]
    features = windows.features(sample)
    curvature = CURVATURE * n_tokens / len(sample) * (features.T @ features)
    penalty = np.full(len(curvature), 1 / c)
    penalty[-1] = 0.0
    # The small last term keeps H positive where c is huge and dimensions repeat each other.
    curvature += np.diag(penalty + 1e-9 * curvature.trace())
    inverse: npt.NDArray[np.float64] = np.linalg.inv(np.linalg.cholesky(curvature)).T
    return inverse


def fit(
    windows: Windows, tags: Ints, n_tags: int, *, c: float = 1.0, seed: int = 0, tolerance: float = TOLERANCE
) -> npt.NDArray[np.float64]:
    """Find the weights, (width * dims + 1, n_tags), that minimise `log_loss`."""
    inverse = coordinates(windows, c, seed)
    shape = len(inverse), n_tags

    def mean_loss(u: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        loss, gradient = log_loss(inverse @ u.reshape(shape), windows, tags, c)
        return loss / len(tags), (inverse.T @ gradient).ravel() / len(tags)

    # ftol is relative to the loss or to 1, whichever is larger; gtol would depend on the coordinates, so it is off.
    options = {"ftol": tolerance, "gtol": 0.0, "maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS}
    start = np.zeros(shape[0] * shape[1])
    with one_blas_thread():
        found = load_scipy().optimize.minimize(mean_loss, start, jac=True, method="L-BFGS-B", options=options)
    if found.status == 1:
        warn(
            f"the tagger did not settle within {found.nit} steps; its penalty may be too weak, try a smaller c than {c}"
        )
    theta: npt.NDArray[np.float64] = inverse @ found.x.reshape(shape)
    return theta


# Scores ---------------------------------------------------------------------------------------------------------------


def accuracy(right: npt.NDArray[np.bool_], counted: npt.NDArray[np.bool_], tokens: Tokens, seed: int) -> Score:
    """Return the share of right tokens among those counted, with an interval from drawing sentences."""
    size = len(tokens.lengths)
    hits = np.bincount(tokens.sentence, weights=right & counted, minlength=size)
    totals = np.bincount(tokens.sentence, weights=counted, minlength=size)

    def share(drawn: Ints) -> float:
        total = totals[drawn].sum()
        return float(hits[drawn].sum() / total) if total else float("nan")

    return bootstrap(share(np.arange(size)), share, size, seed=seed)


def load_scipy() -> Any:
    """Import scipy when it is needed."""
    try:
        import scipy.optimize
        import scipy.sparse
    except ImportError:
        raise MissingExtraError("tagging", "eval") from None
    return scipy


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep matrix products on one thread: these are small, and threads that wait for each other take longer.

    On two cores shared with other work, two threads took 1.4 to 2 times as long. scikit-learn brings threadpoolctl.
    """
    try:
        limits: AbstractContextManager[Any] = import_module("threadpoolctl").threadpool_limits(1, "blas")
    except ImportError:
        return nullcontext()
    return limits
