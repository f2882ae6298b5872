"""The solvers on bare matrices, against dense linear algebra in float64."""

import os
import subprocess
import sys
import weakref

import numpy as np
import pytest
import samples

from pbos import PbosWarning
from pbos.jobs.pools import Threads
from pbos.kernels import columns
from pbos.settings import Preset
from pbos.training.counting import make_index
from pbos.training.solve import Ridge, order_of_words, sgd
from pbos.training.system import Run, make_system
from pbos.words.text import encode
from pbos.words.variants import resolved
from pbos.words.weights import Weights

TIGHT = {"tolerance": 1e-11, "max_iterations": 2000}


def sparse(matrix):
    """A dense matrix as weights."""
    rows, columns = np.nonzero(matrix)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(matrix)))])
    return Weights(indptr, columns.astype(np.int32), matrix[rows, columns].astype(np.float32), matrix.shape[1])


def dense(weights):
    matrix = np.zeros((len(weights), weights.n_columns))
    matrix[np.repeat(np.arange(len(weights)), np.diff(weights.indptr)), weights.indices] = weights.data
    return matrix


def assert_near(found, expected, share=1e-4):
    """No number is off by more than this share of the largest."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0) <= share * np.abs(expected).max(initial=1e-9)


def output_of(code, **environment):
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True).stdout


def dense_ridge(matrix, targets, lam, penalty=None, reliability=None):
    """(A'RA + lam P) S = A'RT."""
    penalty = np.ones(matrix.shape[1]) if penalty is None else penalty
    weighted = matrix.T if reliability is None else matrix.T * reliability
    return np.linalg.solve(weighted @ matrix + lam * np.diag(penalty), weighted @ targets.astype(np.float64))


def tight(solve):
    """Ridge.solve to the last digit."""
    return lambda self, targets, lam, run=None, **options: solve(self, targets, lam, run, **{**options, **TIGHT})


def random_matrix(random, words=40, shared=25, private=0, empty_columns=0, empty_words=0, density=0.2):
    """A sparse matrix, its columns in any order; private columns have one word each, some words several of them."""
    columns = [np.where(random.random(words) < density, random.random(words), 0) for _ in range(shared)]
    for _ in range(private):
        column = np.zeros(words)
        column[random.integers(words // 2)] = random.uniform(0.1, 1)
        columns.append(column)
    columns += [np.zeros(words)] * empty_columns
    matrix = np.array(columns)[random.permutation(len(columns))].T
    matrix[random.choice(words, empty_words, replace=False)] = 0
    return matrix.astype(np.float32).astype(np.float64)


MATRICES = {
    "plain": {},
    "many words": {"words": 300, "shared": 20},
    "many columns": {"words": 20, "shared": 150},
    "one word": {"words": 2, "shared": 5, "density": 0.9, "empty_words": 1},
    "many private": {"private": 70},
    "only private": {"shared": 0, "private": 30},
    "empty columns": {"private": 10, "empty_columns": 7},
    "empty words": {"private": 10, "empty_words": 9},
    "dense": {"density": 1.0},
    "nothing": {"shared": 0, "empty_columns": 5},
}


def system_of(n_words, dims, **settings):
    """The system of English words with the default preset, and its run."""
    vectors = samples.english_vectors(n_words, dims)
    run = Run(resolved(Preset.named("default", settings), vectors.words))
    codes, counts = encode(vectors.words, run.preset), samples.english_counts(n_words)
    index = make_index(counts, vectors.words, codes, run)
    return make_system(index, vectors.words, codes, vectors.vectors, counts.of_words(vectors.words), run), run


def equations(n_words, dims, **settings):
    """The weights, penalties and targets of English words, as the default preset has them."""
    system, _ = system_of(n_words, dims, **settings)
    assert system.penalty.max() > system.penalty.min()
    return system.weights, system.penalty, system.targets


@pytest.fixture(scope="module", params=[False, True], ids=["apart", "merged"])
def real(request):
    return equations(160 if request.param else 60, 160, merge=request.param)


@pytest.mark.parametrize("shape", MATRICES)
@pytest.mark.parametrize("dims", [1, 3, 130])
@pytest.mark.parametrize("with_penalty", [False, True])
@pytest.mark.parametrize("with_reliability", [False, True])
def test_ridge_is_the_dense_solution(shape, dims, with_penalty, with_reliability):
    random = np.random.default_rng(7)
    matrix = random_matrix(random, **MATRICES[shape])
    targets = random.normal(size=(len(matrix), dims)).astype(np.float32)
    penalty = random.uniform(0.5, 8, matrix.shape[1]) if with_penalty else None
    reliability = random.uniform(0.2, 3, len(matrix)) if with_reliability else None
    ridge = Ridge(sparse(matrix), penalty, reliability)
    for lam in (3.0, 0.1):
        solution = ridge.solve(targets, lam, **TIGHT)
        expected = dense_ridge(matrix, targets, lam, penalty, reliability)
        assert_near(solution.vectors, expected)
        assert solution.vectors.dtype == np.float32
        assert solution.report["lam"] == lam
        assert solution.report["excess"] <= 1e-10


def test_fewer_dimensions_are_solved_together_if_memory_is_short():
    random = np.random.default_rng(7)
    matrix = random_matrix(random, private=5)
    targets = random.normal(size=(len(matrix), 120)).astype(np.float32)
    ridge = Ridge(sparse(matrix))
    found = set()
    for n_bytes, most in ((1 << 30, 60), (31_000, 30), (1, 15)):  # a dimension takes 4 * (25 + 30 + 5 * 40) bytes
        done = []
        solution = ridge.solve(targets, 0.1, Run(pool=Threads(1, n_bytes)), **TIGHT, on_slice=done.append)
        assert (sum(done), max(done)) == (120, most)
        assert_near(solution.vectors, dense_ridge(matrix, targets, 0.1))
        found.add(solution.vectors.tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("lam", [0.3, 0.01, 0.0003])
def test_ridge_on_real_words_is_the_dense_solution(real, lam):
    weights, penalty, targets = real
    matrix = dense(weights)
    solution = Ridge(weights, penalty).solve(targets[:, :40], lam, **TIGHT)
    expected = dense_ridge(matrix, targets[:, :40], lam, penalty)
    assert_near(solution.vectors, expected)
    assert_near(matrix @ solution.vectors, matrix @ expected)


def excess_of(vectors, matrix, targets, lam, penalty=None, reliability=None):
    """How far above its minimum the sum to minimize is, as a share of the minimum."""
    penalty = np.ones(matrix.shape[1]) if penalty is None else penalty
    reliability = np.ones(len(matrix)) if reliability is None else reliability

    def total(vectors):
        errors = (matrix @ vectors - targets) ** 2
        return reliability @ errors.sum(axis=1) + lam * (penalty @ (vectors**2).sum(axis=1))

    return total(vectors.astype(np.float64)) / total(dense_ridge(matrix, targets, lam, penalty, reliability)) - 1


@pytest.mark.parametrize("lam", [1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("with_reliability", [False, True])
def test_the_sum_of_real_words_is_within_a_thousandth_of_its_minimum(real, lam, with_reliability):
    """With small lam it was far above; with 1e-6 and 60 words, it hardly falls from iteration 5 to 40."""
    weights, penalty, targets = real
    reliability = np.random.default_rng(0).uniform(0.2, 3, len(weights)) if with_reliability else None
    solution = Ridge(weights, penalty, reliability).solve(targets[:, :40], lam)
    assert excess_of(solution.vectors, dense(weights), targets[:, :40], lam, penalty, reliability) <= 1e-3
    assert solution.report["excess"] <= 1.5e-3  # it is an estimate


@pytest.mark.parametrize("shape", [shape for shape in MATRICES if shape != "nothing"])
@pytest.mark.parametrize("lam", [1.0, 0.01, 1e-4])
def test_the_sum_of_random_words_is_within_a_thousandth_of_its_minimum(shape, lam):
    for seed in range(3):
        random = np.random.default_rng(seed)
        matrix = random_matrix(random, **MATRICES[shape])
        targets = random.normal(size=(len(matrix), 7))
        solution = Ridge(sparse(matrix)).solve(targets.astype(np.float32), lam)
        assert excess_of(solution.vectors, matrix, targets, lam) <= 1e-3


def test_a_solution_that_may_be_far_from_the_minimum_is_a_warning(real):
    weights, penalty, targets = real
    ridge = Ridge(weights, penalty)
    for lam, options in ((1e-9, {}), (0.003, {"max_iterations": 2})):
        with pytest.warns(PbosWarning, match=rf"with lam {lam:g}, the solver is perhaps \d+% above the minimum"):
            solution = ridge.solve(targets, lam, **options)
        assert excess_of(solution.vectors, dense(weights), targets, lam, penalty) > 1e-3


def test_ridge_is_the_same_to_the_bit_for_any_number_of_threads(real):
    weights, penalty, targets = real
    ridge = Ridge(weights, penalty)
    done = []
    first = ridge.solve(targets, 0.003, Run(pool=Threads(1)), on_slice=done.append)
    assert sum(done) == targets.shape[1]
    for threads in (2, 3, None):
        again = ridge.solve(targets, 0.003, Run(pool=Threads(threads)))
        assert again.vectors.tobytes() == first.vectors.tobytes()
        assert again.report == first.report


def test_the_order_of_words_and_columns_does_not_matter(real):
    weights, penalty, targets = real
    random = np.random.default_rng(0)
    words, columns = random.permutation(len(weights)), random.permutation(weights.n_columns)
    first = Ridge(weights, penalty).solve(targets, 0.3, **TIGHT).vectors
    mixed = Ridge(sparse(dense(weights)[words][:, columns]), penalty[columns]).solve(targets[words], 0.3, **TIGHT)
    assert_near(mixed.vectors, first[columns])
    assert sorted(order_of_words(weights, words)) == list(range(len(weights)))


def test_some_words_and_some_columns(real):
    weights, penalty, targets = real
    matrix, random = dense(weights), np.random.default_rng(0)
    rows = np.sort(random.choice(len(matrix), len(matrix) // 2, replace=False))
    reliability = random.uniform(0.5, 2, len(matrix))
    expected = dense_ridge(matrix[rows], targets[rows, :40], 0.1, penalty, reliability[rows])
    ridge = Ridge(weights, penalty, reliability, rows)
    assert_near(ridge.solve(targets[:, :40], 0.1, **TIGHT).vectors, expected)
    some = random.choice(weights.n_columns, 20, replace=False)
    assert_near(ridge.solve(targets[:, :40], 0.1, only=some, **TIGHT).vectors, expected[some])


@pytest.mark.parametrize("weight", [1e-3, 1e-5, 1e-30, 0.0])
@pytest.mark.parametrize("device", [None, "cpu"])  # "cpu" by PyTorch
def test_a_tiny_weight_gives_no_huge_vector(weight, device):
    """Column 0 is shared, column 1 + i is the whole word i, which for one word hardly counts."""
    if device:
        pytest.importorskip("torch")
    weights = Weights(
        np.array([0, 2, 4]), np.array([0, 1, 0, 2], np.int32), np.array([1, 0.5, 1, weight], np.float32), 3
    )
    targets = np.array([[1, 2], [3, 4]], np.float32)
    run, own = Run(device=device), (np.array([1, 2]), 1.0)
    plain = Ridge(weights).solve(targets, 0.1, run, **TIGHT).vectors
    found = Ridge(weights).solve(targets, 0.1, run, own=own, **TIGHT).vectors
    assert found[0] == pytest.approx(plain[0])
    assert found[1] == pytest.approx((targets[0] - plain[0]) / 0.5, rel=1e-4)
    assert found[2] == pytest.approx((targets[1] - plain[0]) / weight if weight == 1e-3 else plain[2], rel=1e-4)


def test_a_weight_of_zero():
    """A weight too small for float32 becomes 0; its column must not get the vector of another."""
    weights = Weights(np.array([0, 2, 4]), np.array([0, 1, 0, 2], np.int32), np.array([1, 0, 1, 0.5], np.float32), 3)
    targets = np.eye(2, dtype=np.float32)
    expected = dense_ridge(dense(weights), targets, 0.1)
    assert not expected[1].any()
    assert Ridge(weights).solve(targets, 0.1, **TIGHT).vectors == pytest.approx(expected, abs=1e-5)
    assert not sgd(weights, targets, sgd_run(epochs=3, lr=0.1, seed=0)).vectors[1].any()


def test_ridge_runs_as_plain_python_too():
    code = (
        "import numpy as np, pbos; random = np.random.default_rng(0); "
        "words = ['high', 'higher', 'low', 'lower', 'x-ray', 'slow']; "
        "model = pbos.train((words, random.normal(size=(6, 3))), max_vectors=9); "
        "print(model.info, model.subword_vectors.values.tolist(), [a.tolist() for a in model.index.arrays])"
    )
    assert output_of(code, NUMBA_DISABLE_JIT="1") == output_of(code)


def test_a_private_column_whose_weight_vanishes_has_no_vector():
    """Multiplied by the root of the word's reliability, it is 0 as a float32."""
    matrix = np.array([[1, np.float32(1.4e-45)], [1, 0]])
    targets, reliability = np.array([[4.0, 0.0], [2.0, 1.0]], np.float32), np.array([0.2, 1.8], np.float32)
    found = Ridge(sparse(matrix), reliability=reliability).solve(targets, 0.01).vectors
    assert_near(found, dense_ridge(matrix, targets, 0.01, reliability=reliability))


# SGD ------------------------------------------------------------------------------------------------------------------


def sgd_run(epochs, lr, seed, **options):
    return Run(Preset.named("pbos", {"epochs": epochs, "lr": lr}), seed, **options)


def plain_sgd(matrix, targets, epochs, lr, seed):
    """The paper's loop, in float64."""
    vectors = np.zeros((matrix.shape[1], targets.shape[1]))
    random = np.random.default_rng(seed)
    for epoch in range(epochs):
        for word in random.permutation(len(matrix)):
            error = matrix[word] @ vectors - targets[word]
            vectors -= lr / np.sqrt(1 + epoch) * np.outer(matrix[word], error)
    return vectors


@pytest.mark.parametrize("shape", MATRICES)
@pytest.mark.parametrize("dims", [1, 16, 17, 150])
def test_sgd_is_the_plain_loop_for_any_number_of_threads(shape, dims):
    random = np.random.default_rng(8)
    matrix = random_matrix(random, **MATRICES[shape])
    matrix /= np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    targets = random.normal(size=(len(matrix), dims)).astype(np.float32)
    settings = {"epochs": 4, "lr": 0.8, "seed": 5}
    first = sgd(sparse(matrix), targets, sgd_run(**settings, pool=Threads(1, 1)))
    assert_near(first.vectors, plain_sgd(matrix.astype(np.float32).astype(float), targets, **settings), 1e-5)
    for threads in (2, 3, 7, None):
        again = sgd(sparse(matrix), targets, sgd_run(**settings, pool=Threads(threads)))
        assert again.vectors.tobytes() == first.vectors.tobytes()
        assert again.report == first.report


def test_sgd_on_real_words_is_the_plain_loop(real):
    weights, _, targets = real
    found = sgd(weights, targets[:, :40], sgd_run(epochs=10, lr=1.0, seed=2)).vectors
    assert_near(found, plain_sgd(dense(weights), targets[:, :40], 10, 1.0, 2), 1e-5)


def test_negligible_weights_are_not_trained():
    """Weights are negligible compared with the largest of their row; rows of small weights are kept."""
    matrix = np.array([[0.5, 1e-6, 2e-6, 0.0], [1e-6, 1e-6, 3e-6, 2e-6], [0.0, 0.0, 0.0, 0.3]])
    targets = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    kept = np.where(matrix == [[0, 1e-6, 0, 0], [9] * 4, [9] * 4], 0, matrix)
    assert (kept == 0).sum() == (matrix == 0).sum() + 1
    found = sgd(sparse(matrix), targets, sgd_run(epochs=3, lr=1.0, seed=0)).vectors
    expected = plain_sgd(kept, targets, 3, 1.0, 0)
    assert found == pytest.approx(expected, rel=1e-5)
    assert plain_sgd(matrix, targets, 3, 1.0, 0)[1] != pytest.approx(expected[1], rel=0.1)
    assert_near(matrix @ found, matrix @ plain_sgd(matrix, targets, 3, 1.0, 0), 1e-5)


def test_sgd_has_the_weights_no_more_than_twice(monkeypatch):
    """The plan of the memory counts on it."""
    made, is_there = [], []

    def watched(*given, without_negligible=columns.without_negligible):
        kept = without_negligible(*given)
        made.append(weakref.ref(kept))
        return kept

    monkeypatch.setattr(columns, "without_negligible", watched)
    watch = lambda dims: is_there.append(made[0]() is not None)  # noqa: E731
    sgd(sparse(np.eye(3)), np.ones((3, 2), np.float32), sgd_run(epochs=1, lr=1.0, seed=0), watch)
    assert is_there == [False]


def test_sgd_runs_as_plain_python_too():
    code = (
        "import numpy as np, pbos; random = np.random.default_rng(0); "
        "words = ['high', 'higher', 'low', 'lower', 'x-ray', 'slow']; "
        "model = pbos.train((words, random.normal(size=(6, 19))), preset='pbos', epochs=3, threads=2); "
        "print(model.info, model.subword_vectors.values.tolist(), [a.tolist() for a in model.index.arrays])"
    )
    assert output_of(code, NUMBA_DISABLE_JIT="1") == output_of(code)
