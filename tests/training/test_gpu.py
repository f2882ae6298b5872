"""Ridge regression with PyTorch, on CPU tensors, against dense linear algebra in float64."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_solve import (
    MATRICES,
    TIGHT,
    assert_near,
    dense,
    dense_ridge,
    equations,
    excess_of,
    random_matrix,
    sparse,
    system_of,
    tight,
)

import pbos
from pbos import InputError, PbosWarning
from pbos.jobs.pools import Threads
from pbos.training import gpu
from pbos.training.fit import tune
from pbos.training.solve import Ridge
from pbos.training.system import Run

torch = pytest.importorskip("torch")
CPU = Run(device="cpu")  # by PyTorch


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Use one thread; systems this small are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def real():
    return equations(160, 160)


@pytest.fixture
def small_pieces(monkeypatch):
    """Little memory, so that everything happens in many slices and blocks."""
    monkeypatch.setattr(gpu, "COPIED", 64)
    monkeypatch.setattr(gpu, "SQUARED", 64)


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(gpu, "torch", None)


@pytest.fixture
def cuda_is_the_cpu(monkeypatch):
    """Use PyTorch's CPU whatever the device."""
    monkeypatch.setattr(gpu, "find_device", lambda name: torch.device("cpu"))


# Ridge regression -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", MATRICES)
@pytest.mark.parametrize("dims", [1, 5, 130])
@pytest.mark.parametrize("with_penalty", [False, True])
@pytest.mark.parametrize("with_reliability", [False, True])
def test_it_is_the_dense_solution(shape, dims, with_penalty, with_reliability):
    random = np.random.default_rng(7)
    matrix = random_matrix(random, **MATRICES[shape])
    targets = random.normal(size=(len(matrix), dims)).astype(np.float32)
    penalty = random.uniform(0.5, 8, matrix.shape[1]) if with_penalty else None
    reliability = random.uniform(0.2, 3, len(matrix)) if with_reliability else None
    ridge = Ridge(sparse(matrix), penalty, reliability)
    for lam in (30.0, 3.0, 0.1):
        solution = ridge.solve(targets, lam, CPU, **TIGHT)
        assert_near(solution.vectors, dense_ridge(matrix, targets, lam, penalty, reliability))
        assert type(solution.vectors) is np.ndarray
        assert solution.vectors.dtype == np.float32
        assert solution.report["device"] == "cpu"


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    words=st.integers(1, 30),
    shared=st.integers(0, 30),
    private=st.integers(0, 20),
    density=st.floats(0.02, 1),
    dims=st.integers(1, 9),
    memory=st.integers(0, 40_000),
    log_lam=st.floats(-2, 4),
)
def test_it_is_the_dense_solution_whatever_the_system(seed, words, shared, private, density, dims, memory, log_lam):
    random = np.random.default_rng(seed)
    matrix = random_matrix(random, words + 1, shared, private, empty_columns=1, density=density)
    targets, lam = random.normal(size=(len(matrix), dims)), 10**log_lam
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "MEMORY_ELSEWHERE", memory)
        solution = Ridge(sparse(matrix)).solve(targets, lam, CPU, **TIGHT)
    assert_near(solution.vectors, dense_ridge(matrix, targets, lam), 1e-3)


@pytest.mark.parametrize("lam", [1e6, 0.3, 0.01, 0.0003])
def test_on_real_words_it_is_the_dense_solution(real, lam):
    weights, penalty, targets = real
    found = Ridge(weights, penalty).solve(targets[:, :40], lam, CPU, **TIGHT)
    expected = dense_ridge(dense(weights), targets[:, :40], lam, penalty)
    assert_near(found.vectors, expected, 2e-4)


def test_it_stops_where_the_cpu_does(real):
    weights, penalty, targets = real
    ridge = Ridge(weights, penalty)
    for lam in (0.03, 0.003, 0.0003):
        for dim in range(4):  # one at a time, as the CPU slices several in another way
            some = targets[:, dim : dim + 1]
            expected = ridge.solve(some, lam, Run(pool=Threads(1))).report
            found = ridge.solve(some, lam, CPU).report
            assert found["iterations"] == pytest.approx(expected["iterations"], abs=1, rel=0.1)  # sums are rounded
            assert found["excess"] == pytest.approx(expected["excess"], abs=2e-4)


@pytest.mark.parametrize("lam", [0.1, 0.003, 1e-4, 1e-6])
def test_the_sum_is_within_a_thousandth_of_its_minimum(real, lam):
    weights, penalty, targets = real
    solution = Ridge(weights, penalty).solve(targets, lam, CPU)
    assert excess_of(solution.vectors, dense(weights), targets, lam, penalty) <= 1e-3
    assert solution.report["excess"] <= 1e-3


@pytest.mark.parametrize("slice_dims", [1, 3, 4, 7, 20, 300])
def test_dimensions_are_solved_in_slices_that_fit_the_memory(real, small_pieces, monkeypatch, slice_dims):
    weights, penalty, targets = real
    n_shared = np.count_nonzero(np.count_nonzero(dense(weights), axis=0) != 1)
    memory = 4 * slice_dims * (3 * n_shared + len(weights)) + 4 * gpu.SQUARED
    monkeypatch.setattr(gpu, "MEMORY_ELSEWHERE", memory)
    done = []
    found = Ridge(weights, penalty).solve(targets[:, :50], 0.03, CPU, on_slice=done.append, **TIGHT)
    assert sum(done) == 50
    assert max(done) <= slice_dims
    assert len(done) == -(-50 // max(done))
    assert_near(found.vectors, dense_ridge(dense(weights), targets[:, :50], 0.03, penalty))


def test_targets_may_be_read_only_and_of_any_layout(real, recwarn):
    weights, penalty, targets = real
    ridge = Ridge(weights, penalty)
    expected = ridge.solve(np.array(targets[:, :20]), 0.01, CPU).vectors
    for layout in (np.asfortranarray(targets[:, :20]), targets.astype(np.float64)[:, :20], np.array(targets)[:, :20]):
        layout.flags.writeable = False
        assert (ridge.solve(layout, 0.01, CPU).vectors == expected).all()
    assert not recwarn.list


def test_the_equations_are_moved_once(real, monkeypatch):
    weights, penalty, targets = real
    made = []
    monkeypatch.setattr(gpu, "DeviceRidge", lambda *given, moved=gpu.DeviceRidge: made.append(given) or moved(*given))
    ridge = Ridge(weights, penalty)
    for lam in (0.1, 0.01):
        ridge.solve(targets, lam, Run(device=torch.device("cpu")))
    assert len(made) == 1


def test_settings_are_chosen_as_on_the_cpu(monkeypatch):
    monkeypatch.setattr(Ridge, "solve", tight(Ridge.solve))
    system, run = system_of(300, 40)
    expected, found = (tune(system, replace(run, device=device))["choice"] for device in (None, "cpu"))
    assert len(expected.scores) > 3
    assert (found.lam, found.share) == (expected.lam, expected.share)
    assert found.scores == pytest.approx(expected.scores, abs=1e-3)


def test_transposing():
    random = np.random.default_rng(3)
    matrix = random_matrix(random, words=50, shared=30, empty_columns=4, empty_words=5)
    weights = sparse(matrix)
    arrays = (torch.tensor(array) for array in (weights.indptr, weights.indices, weights.data))
    indptr, indices, data = gpu.transposed(*arrays, weights.n_columns)
    found = pbos.words.weights.Weights(indptr.numpy(), indices.numpy(), data.numpy(), len(weights))
    assert (dense(found) == matrix.T).all()
    for column in range(weights.n_columns):
        assert (np.diff(found.indices[found.indptr[column] : found.indptr[column + 1]]) > 0).all()


# Which device ---------------------------------------------------------------------------------------------------------

WORDS = ["high", "higher", "highest", "low", "lower", "lowest", "slow", "slower", "x-ray"]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 40)).astype(np.float32)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:one", "CUDA", "", "cuda:1:2", 3])
def test_unknown_devices(name):
    message = r"unknown device .*; choose cpu, cuda, mps or xpu, or one of several, as in \"cuda:1\""
    with pytest.raises(InputError, match=message):
        pbos.train((WORDS, VECTORS), device=name)


@pytest.mark.parametrize("name", [None, "cpu", "cpu:0"])
def test_the_cpu_needs_no_torch(name, without_torch):
    model = pbos.train((WORDS, VECTORS), device=name)
    assert model.subword_vectors.values.tobytes() == pbos.train((WORDS, VECTORS)).subword_vectors.values.tobytes()
    assert "device" not in model.info["training"]


def test_without_torch_training_falls_back_to_the_cpu(without_torch):
    expected = pbos.train((WORDS, VECTORS))
    message = (
        r'the device "cuda:1" needs PyTorch, which is not installed \(pip install "pbos\[torch\]"\); '
        "training falls back to the CPU"
    )
    with pytest.warns(PbosWarning, match=message):
        model = pbos.train((WORDS, VECTORS), device="cuda:1")
    assert model.subword_vectors.values.tobytes() == expected.subword_vectors.values.tobytes()
    assert model.info == expected.info


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_training_falls_back_to_the_cpu():
    expected = pbos.train((WORDS, VECTORS))
    with pytest.warns(
        PbosWarning, match=r'PyTorch cannot use the device "cuda" \(.+\); training falls back to the CPU'
    ):
        model = pbos.train((WORDS, VECTORS), device="cuda")
    assert model.subword_vectors.values.tobytes() == expected.subword_vectors.values.tobytes()


def test_a_device_without_sparse_products_cannot_be_used(monkeypatch):
    def fail(*arguments, **options):
        raise NotImplementedError("no sparse products here\nand more about it")

    monkeypatch.setattr(gpu, "multiply", fail)
    with pytest.warns(PbosWarning, match=r'PyTorch cannot use the device "cpu" \(no sparse products here\); training'):
        assert gpu.find_device("cpu") is None


def test_a_device_that_works():
    assert gpu.find_device("cpu") == torch.device("cpu")


def test_sgd_has_no_device():
    message = "device 'cuda' needs solver=\"ridge\": SGD takes one word after the other"
    with pytest.raises(InputError, match=message):
        pbos.train((WORDS, VECTORS), preset="pbos", device="cuda")
    pbos.train((WORDS, VECTORS), preset="pbos", epochs=1, device="cpu")


@pytest.mark.parametrize("settings", [{}, {"lam": 0.01}, {"max_vectors": 12}])
def test_training_on_a_device(settings, cuda_is_the_cpu, monkeypatch):
    monkeypatch.setattr(Ridge, "solve", tight(Ridge.solve))
    expected = pbos.train((WORDS, VECTORS), **settings)
    model = pbos.train((WORDS, VECTORS), device="cuda", **settings)
    assert model.info["training"]["device"] == "cpu"
    assert model.index.rows.tolist() == expected.index.rows.tolist()
    assert model.info["training"]["lam"] == expected.info["training"]["lam"]
    assert model.embed(WORDS) == pytest.approx(expected.embed(WORDS), abs=1e-3)


def test_training_without_a_device_does_not_wait_for_torch():
    code = (
        "import sys, numpy, pbos; model = pbos.train({'high': [1.0], 'higher': [2.0]}, device='cpu'); "
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"


def test_the_module_needs_no_numba():
    """A GPU machine may have PyTorch and little else."""
    code = (
        "import sys; sys.modules['numba'] = None; import numpy as np; from pbos.training import gpu; "
        "rows = np.array([0, 1, 2]), np.zeros(2, np.int32), np.ones(2, np.float32); "
        "ridge = gpu.DeviceRidge(rows, np.zeros(2, np.float32), 1, 'cpu'); "
        "print(ridge.solve(np.array([[3.0], [6.0]]), 1.0, 100, 0.02)[0])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[[3.]]\n"


@pytest.fixture
def vector_file(tmp_path):
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, VECTORS[:, :3].tolist(), strict=True)]
    (tmp_path / "vectors.txt").write_text("".join(lines), encoding="utf-8")
    return tmp_path / "vectors.txt"


def test_the_command_line_has_a_device(run, vector_file, cuda_is_the_cpu):
    code, _, errors = run("train", vector_file, "--device", "cuda", "-o", "model")
    assert code == 0, errors
    assert pbos.load("model").info["training"]["device"] == "cpu"


def test_the_command_line_knows_devices(run, vector_file):
    code, _, errors = run("train", vector_file, "--device", "gpu", "-o", "model")
    assert code == 2
    assert "unknown device 'gpu'" in errors
