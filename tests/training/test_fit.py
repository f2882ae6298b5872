"""How much words count, and the choice of lam and reliability, against brute force in float64."""

import numpy as np
import pytest
from test_solve import dense_ridge, random_matrix, sparse, tight

from pbos.training import fit
from pbos.training.fit import choose, reliabilities, row_cosines
from pbos.training.solve import Ridge
from pbos.training.system import Run, Split, System
from pbos.words.arrays import held_out_rows, projection

LAMS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
SHARES = (None, *fit.SHARES)


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Solve ridge regression to the last digit."""
    monkeypatch.setattr(Ridge, "solve", tight(Ridge.solve))


# How much words count -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 1 / 3, 0.99, 1.0])
@pytest.mark.parametrize("kind", ["counts", "ranks", "some uncounted"])
def test_reliabilities_by_their_definition(kind, share):
    random = np.random.default_rng(0)
    counts = np.floor(random.pareto(1, 200) * 5) + 1
    if kind == "ranks":
        counts = 1 / np.arange(1, 201)
    if kind == "some uncounted":
        counts[::3] = 0
    least = min(count for count in counts if count > 0)
    known = [max(count, least) for count in counts]
    typical = sorted(known, reverse=True)[min(int(share * 200), 199)]
    variances = np.array([1 + typical / count for count in known])
    found = reliabilities(counts, share)
    assert found.dtype == np.float32
    assert found == pytest.approx((1 / variances) / (1 / variances).mean(), rel=1e-6)


def test_with_ranks_the_weight_is_that_of_the_rank():
    """1 / (1 + rank / r0), where r0 is the rank of the word at this share."""
    found = reliabilities(1 / np.arange(1, 1001), 0.3)
    expected = 1 / (1 + np.arange(1, 1001) / 301)
    assert found == pytest.approx(expected / expected.mean(), rel=1e-5)


def test_words_that_all_count_the_same():
    assert reliabilities(np.array([3.0, 1.0]), None) is None
    assert reliabilities(np.zeros(5), 0.1) is None  # no word was counted
    assert reliabilities(np.array([7.0]), 0.1).tolist() == [1.0]
    assert reliabilities(np.full(4, 7.0), 0.1).tolist() == [1.0] * 4


@pytest.mark.parametrize(("n_words", "n_hidden"), [(1, 0), (10, 1), (99, 9), (40_000, 4000)])
def test_rows_that_are_held_out(n_words, n_hidden):
    hidden = held_out_rows(n_words, n_hidden, 3)
    assert len(set(hidden.tolist())) == n_hidden
    assert (np.diff(hidden) > 0).all() and ((hidden >= 0) & (hidden < n_words)).all()
    assert np.array_equal(hidden, held_out_rows(n_words, n_hidden, 3))
    if n_hidden > 1:
        assert not np.array_equal(hidden, held_out_rows(n_words, n_hidden, 4))


def test_directions_are_at_right_angles():
    assert projection(5, 5, 0).tolist() == np.eye(5).tolist()
    found = projection(60, 32, 1)
    assert found.shape == (60, 32)
    assert found.T @ found == pytest.approx(np.eye(32), abs=1e-6)


def test_cosines_of_rows():
    left = np.array([[1, 0], [3, 4], [0, 0], [1, 1]], np.float32)
    right = np.array([[0, 2], [6, 8], [1, 1], [-2, -2]], np.float32)
    assert row_cosines(left, right) == pytest.approx([0, 1, 0, -1])


# The choice -----------------------------------------------------------------------------------------------------------


def made_words(seed=0, n_words=1500, dims=12, noise=0.3, tail=0.0):
    """Words whose vectors follow their columns, with noise; `tail`: how much more noise, by rank."""
    random = np.random.default_rng(seed)
    matrix = random_matrix(random, words=n_words, shared=120, private=100, empty_words=3, density=0.05)
    ranks = np.arange(1, n_words + 1)
    sizes = np.sqrt(noise**2 + tail**2 * ranks / n_words)
    targets = matrix @ random.normal(size=(matrix.shape[1], dims)) + sizes[:, None] * random.normal(
        size=(n_words, dims)
    )
    return matrix, targets.astype(np.float32), 1 / ranks


def tenth(n_words, seed):
    """Which words to hold out."""
    hidden = np.zeros(n_words, np.bool_)
    hidden[held_out_rows(n_words, n_words // 10, seed)] = True
    return hidden


def split_by(matrix, targets, counts, hidden, penalty=None):
    penalty = np.ones(matrix.shape[1]) if penalty is None else penalty
    system = System(None, [], sparse(matrix), penalty, None, targets, counts)
    kept, rows = np.flatnonzero(~hidden), np.flatnonzero(hidden)
    return Split(system, kept, rows, targets[hidden], sparse(matrix[hidden]), None, None)


def cosines_by_hand(matrix, targets, counts, hidden, penalty, lam, share, seed=0):
    """The cosines of held-out words with a dense solution for the others: plain, and around the mean of those."""
    if targets.shape[1] > 32:
        targets = targets @ np.linalg.qr(np.random.default_rng(seed).standard_normal((targets.shape[1], 32)))[0]
    reliability = None
    if share is not None:
        ordered = np.sort(counts[~hidden])[::-1]
        reliability = counts[~hidden] / (counts[~hidden] + ordered[int(share * ordered.size)])
        reliability = reliability / reliability.mean()
    vectors = dense_ridge(matrix[~hidden], targets[~hidden], lam, penalty, reliability)
    middle = targets[~hidden].mean(axis=0)
    pairs = [(matrix[hidden] @ vectors - zero, targets[hidden] - zero) for zero in (0 * middle, middle)]
    return [
        (words * given).sum(axis=1) / np.maximum(np.linalg.norm(words, axis=1) * np.linalg.norm(given, axis=1), 1e-12)
        for words, given in pairs
    ]


def score_parts(counts, hidden):
    """Half of the score for all words alike, half by reliability for a share of a tenth."""
    typical = np.sort(counts)[::-1][counts.size // 10]
    trust = (counts / (counts + typical))[hidden]
    return (1 / hidden.sum() + trust / trust.sum()) / 2


@pytest.mark.parametrize(("tail", "shuffled", "weighs"), [(0.0, False, False), (6.0, False, True), (6.0, True, False)])
@pytest.mark.parametrize("dims", [12, 40])
def test_the_choice_is_that_of_brute_force(tail, shuffled, weighs, dims):
    """A table with a noisy tail weighs words; one without noise by rank, or in random order, does not."""
    matrix, targets, counts = made_words(dims=dims, tail=tail)
    if shuffled:
        counts = np.random.default_rng(5).permutation(counts)
    penalty = np.random.default_rng(1).uniform(0.5, 4, matrix.shape[1])
    hidden = tenth(len(matrix), 2)
    shares = (None, 1 / 3, 1 / 10, 1 / 30)
    tried = []
    split = split_by(matrix, targets, counts, hidden, penalty)
    choice = choose(split, LAMS, shares, Run(), lambda steps, note: tried.append(note))

    cosines = {
        (lam, share): cosines_by_hand(matrix, targets, counts, hidden, penalty, lam, share)
        for lam in LAMS
        for share in shares
    }
    names = {f"{lam:g}" if share is None else f"{lam:g}, {share:.2g}": (lam, share) for lam, share in cosines}
    assert tried == [f"lam {name}, cosine {score:.4f}" for name, score in choice.scores.items()]
    assert choice.scores == pytest.approx({name: cosines[names[name]][0].mean() for name in choice.scores}, abs=2e-4)

    def gain(new, old, by, parts):
        gained = cosines[new][by] - cosines[old][by]
        mean = np.sum(parts * gained)
        return mean, np.sqrt(np.sum(parts**2 * (gained - mean) ** 2))

    def is_good(lam, share, by, parts):
        """A smaller lam is not better by more than .001 and an error, a larger one is worse by more than that."""
        at = LAMS.index(lam)

        def worse(other):
            mean, error = gain((other, share), (lam, share), by, parts)
            return mean <= (1 if other < lam else -1) * max(error, 0.001)

        return all(map(worse, LAMS[max(at - 1, 0) : at] + LAMS[at + 1 : at + 2]))

    even, parts = np.full(hidden.sum(), 1 / hidden.sum()), score_parts(counts, hidden)
    firsts = [lam for lam in LAMS if is_good(lam, None, 0, even)]
    assert len(firsts) == 1
    expected = None  # the last of the shares each of which is better than the one before by two standard errors
    for share in shares[1:]:
        mean, error = gain((firsts[0], share), (firsts[0], expected), 1, parts)
        if mean <= 2 * error:
            break
        expected = share
    assert (choice.share, choice.share is not None) == (expected, weighs)
    assert is_good(choice.lam, choice.share, *((0, even) if expected is None else (1, parts)))


@pytest.mark.parametrize(("lams", "expected"), [((1000.0, 300.0, 100.0), 100.0), ((0.003, 0.001, 0.0003), 0.003)])
def test_the_best_lam_may_be_at_an_end(lams, expected):
    """The best is about 10 here."""
    matrix, targets, counts = made_words(noise=2.0)
    choice = choose(split_by(matrix, targets, counts, tenth(len(matrix), 0)), lams, (None,), Run())
    assert choice.lam == expected


def test_what_is_fixed_is_kept():
    matrix, targets, counts = made_words(tail=6.0)
    split = split_by(matrix, targets, counts, tenth(len(matrix), 0))
    assert choose(split, (0.5,), (None, 0.1), Run()).lam == 0.5
    assert choose(split, LAMS, (0.02,), Run()).share == 0.02
    assert choose(split, (0.5,), (0.02,), Run()) == (0.5, 0.02, {})


def test_without_counts_no_share_is_better():
    matrix, targets, _ = made_words(tail=6.0)
    split = split_by(matrix, targets, np.zeros(len(matrix)), tenth(len(matrix), 0))
    assert choose(split, LAMS, SHARES, Run()).share is None


def test_one_held_out_word_does_not_decide_about_the_others():
    matrix, targets, counts = made_words(n_words=40, tail=6.0)
    for word in range(10):
        hidden = np.arange(40) == word
        assert choose(split_by(matrix, targets, counts, hidden), LAMS, SHARES, Run()).share is None


def test_nothing_to_compare_with():
    matrix, targets, counts = made_words(n_words=9)
    split = split_by(matrix, targets, counts, tenth(9, 0))
    assert choose(split, fit.LAMS, SHARES, Run()) == (0.003, None, {})
    nothing = split_by(np.zeros((8, 2)), np.zeros((8, 3), np.float32), np.ones(8), np.arange(8) < 4)
    choice = choose(nothing, fit.LAMS, SHARES, Run())  # words without weights, vectors of zeros
    assert (choice.lam, choice.share) == (0.1, None)  # all are as good, and the largest is the fastest
    assert set(choice.scores.values()) == {0.0}
