"""Arrays in files, steps that are not done twice, and training within memory."""

import errno
import filecmp
import gc
import os
import pickle
import subprocess
import sys
import time
import weakref

import numpy as np
import pytest
import samples

import pbos
from pbos import InputError
from pbos.files.atomic import lock
from pbos.jobs.pools import Threads
from pbos.jobs.workspace import Mapped, Slices, Workspace, solve_slices
from pbos.settings import PRESETS, Preset
from pbos.training.plan import Plan
from pbos.words.subwords import Subwords
from pbos.words.text import pack_strings

FILES = ("model.safetensors", "config.json", "README.md")


@pytest.fixture(params=["memory", "files"])
def work(request, tmp_path):
    return Workspace(tmp_path / "parts" if request.param == "files" else None)


@pytest.mark.parametrize("by_column", [False, True])
def test_arrays_to_fill(work, by_column):
    array = work.empty("some", (5, 3), np.float32, by_column=by_column)
    array[:] = np.arange(15).reshape(5, 3)
    assert array.tolist() == np.arange(15).reshape(5, 3).tolist()
    assert work.keep("some", array) is array
    if work.folder is not None:
        assert np.load(work.folder / "some.npy").tolist() == array.tolist()
        assert (work.folder / "some.npy").stat().st_size == 128 + 60
        assert array.flags.f_contiguous == by_column
        assert (work.empty("some", (5, 3), np.float32) == 0).all()  # a new one; the other stays as it is
        assert array[4, 2] == 14


def test_a_mapped_array_is_pickled_as_the_name_of_its_file(tmp_path):
    work = Workspace(tmp_path)
    for writeable in (True, False):
        given = np.arange(100_000)
        given.flags.writeable = writeable
        array = work.keep(f"some-{writeable}", given)
        assert isinstance(array, Mapped)
        sent = pickle.dumps(array)
        assert len(sent) < 500
        again = pickle.loads(sent)
        assert (again == given).all()
        assert again.flags.writeable == array.flags.writeable == writeable
        part = pickle.loads(pickle.dumps(array[10:20]))  # a part has no file of its own
        assert part.tolist() == list(range(10, 20))
        assert type(pickle.loads(pickle.dumps(array + 1))) is np.ndarray
    work.forget(array)
    assert not (work.folder / "some-False.npy").exists()


def test_arrays_are_mapped_on_many_threads(tmp_path):
    """Python 3.11 cannot parse the headers of .npy files on several threads, if its garbage collector interrupts."""
    work, pause = Workspace(tmp_path), lambda *event: time.sleep(1e-5)
    gc.callbacks.append(pause)
    threshold = gc.get_threshold()
    gc.set_threshold(20)
    try:
        found = Threads(8).map("keep", lambda at: work.keep(f"some-{at}", np.arange(at)).sum(), range(100))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(pause)
    assert found == [at * (at - 1) // 2 for at in range(100)]


def test_nothing_is_left_of_an_array_that_cannot_be_written(tmp_path, monkeypatch):
    def full(stream, array):
        stream.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match=r"No space left on device: .*/some.npy'"):
        Workspace(tmp_path).keep("some", np.arange(3))
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_named(vectors, tmp_path, monkeypatch):
    """Space is reserved before files are mapped; this error of the system has no name of a file."""

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    vectors.write(tmp_path / "vectors.vec")
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"No space left on device: '.*/some.npy'"):
        Workspace(tmp_path).empty("some", (5, 3), np.float32)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        pbos.WordVectors.read(tmp_path / "vectors.vec", scratch=tmp_path)


def test_a_step_is_done_once(work):
    done = []

    def compute():
        done.append(1)
        return {"array": np.arange(3), "plain": [1, "two", None, 0.1]}

    for _ in range(2):
        found = work.step("step", compute)
        assert found["array"].tolist() == [0, 1, 2]
        assert found["plain"] == [1, "two", None, 0.1]
    assert len(done) == (2 if work.folder is None else 1)


def test_a_step_that_fails_is_done_again(work):
    def fail():
        work.keep("step.array", np.arange(3))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.step("step", fail)
    assert work.step("step", lambda: {"array": np.arange(5)})["array"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("damage", ["record cut", "array cut", "array gone"])
def test_a_step_is_done_again_if_what_it_kept_is_damaged(tmp_path, damage):
    """An array that was cut short, when mapped to be written, would get zeros for the rest."""
    work = Workspace(tmp_path)
    work.step("step", lambda: {"array": np.arange(1, 1001), "plain": 1})
    file = tmp_path / ("step.json" if damage == "record cut" else "step.array.npy")
    if damage == "array gone":
        file.unlink()
    else:
        os.truncate(file, file.stat().st_size // 2)
    found = work.step("step", lambda: {"array": np.arange(2, 1002), "plain": 2})
    assert (found["array"].tolist(), found["plain"]) == (list(range(2, 1002)), 2)


def test_a_matrix_is_filled_some_columns_at_a_time(work):
    whole = np.random.default_rng(0).normal(size=(7, 10)).astype(np.float32)
    slices = [slice(0, 4), slice(4, 5), slice(5, 10)]
    done = []

    def compute(some):
        return {"vectors": whole[:, some].copy(), "first": some.start}

    found, facts = solve_slices(work, whole.shape, slices, compute, "fill", Threads(2), 0, done.append)
    assert sorted(done) == [1, 4, 5]
    assert [fact["first"] for fact in facts] == [0, 4, 5]
    assert isinstance(found, Slices) == (work.folder is not None)
    assert found.shape == whole.shape
    for rows in (slice(2, 5), np.array([6, 0, 0])):
        assert found[rows].tolist() == whole[rows].tolist()
    if isinstance(found, Slices):
        assert found.joined(work).tolist() == whole.tolist()


# Training -------------------------------------------------------------------------------------------------------------


def assert_same(one, other):
    assert all(filecmp.cmp(one / name, other / name, shallow=False) for name in FILES)


@pytest.fixture(scope="module")
def vectors():
    return samples.english_vectors(1500, 40)


@pytest.fixture
def no_room(monkeypatch):
    """Every job is too large for the memory."""
    monkeypatch.setattr(Plan, "in_memory", 1 << 50)
    monkeypatch.setattr("pbos.jobs.threads.blocks.__defaults__", (256,))
    monkeypatch.setattr("pbos.training.system.SMALL_PART", 400)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "float16", "heldout": 0.1, "keep_targets": True},
        {"dtype": "int8", "max_vectors": 900},
        {"preset": "pbos", "epochs": 2},
        {"preset": "pbos-n", "epochs": 2, "dtype": "int8"},
        {"preset": "bos", "epochs": 2, "limit": 500},
        {"reliability": 0.1, "own_share": "fitted"},
    ],
)
def test_the_model_is_the_same_with_arrays_in_files(vectors, options, no_room, tmp_path):
    found = pbos.train(vectors, **options, output=tmp_path / "files", memory="1G")
    pbos.train(vectors, **options, output=tmp_path / "memory")
    assert_same(tmp_path / "files", tmp_path / "memory")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "memory"]
    assert (found.embed(vectors.words) == pbos.load(tmp_path / "memory").embed(vectors.words)).all()


def test_an_interrupted_training_goes_on(vectors, no_room, monkeypatch, tmp_path):
    solved, stops = [], []
    solve = pbos.training.solve.Ridge._solve_shared

    def counting(self, *arguments):
        solved.append(None)
        if len(solved) in stops:
            raise KeyboardInterrupt
        return solve(self, *arguments)

    monkeypatch.setattr(pbos.training.solve.Ridge, "_solve_shared", counting)
    pbos.train(vectors, output=tmp_path / "whole", threads=1)
    options = {"output": tmp_path / "model", "memory": "1G", "threads": 1}
    last = len(solved)
    for stop in (3, last - 4, last):  # while choosing lam, calibrating, and in the last slice
        stops[:] = [stop - len(list((tmp_path / "model.parts" / "calibration").glob("vectors.*.json")))]
        solved.clear()
        with pytest.raises(KeyboardInterrupt):
            pbos.train(vectors, **options)
        assert not (tmp_path / "model").exists()
    with pytest.raises(InputError, match="parts of another job"):
        pbos.train(vectors, **options, seed=1)
    solved.clear()
    pbos.train(vectors, **options)
    assert len(solved) == 3  # the two of the probe, and only the last slice
    assert_same(tmp_path / "model", tmp_path / "whole")
    assert not (tmp_path / "model.parts").exists()


def test_parts_of_another_job_are_not_used(vectors, no_room, monkeypatch, tmp_path):
    def stop(self, *arguments):
        raise KeyboardInterrupt

    few = pbos.WordVectors(vectors.words[:300], vectors.vectors[:300])
    options = {"output": tmp_path / "model", "memory": "1G", "preset": "pbos", "solver": "ridge", "progress": False}
    counts = dict.fromkeys(few.words, 5)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pbos.training.solve.Ridge, "_solve_shared", stop)
        pbos.train(few, counts, **options)
    changed = few.vectors.copy()
    changed[7, 3] += 1
    others = {**dict.fromkeys(few.words[1:], 5), "another": 5}
    for given, table in (((few.words, changed), counts), (few, others)):
        with pytest.raises(InputError, match="parts of another job"):
            pbos.train(given, table, **options)
    with monkeypatch.context() as patch, pytest.raises(InputError, match="parts of another job"):
        patch.setattr("pbos.training.train.__version__", "0.0.1")
        pbos.train(few, counts, **options)
    job = (tmp_path / "model.parts" / "job.json").read_bytes()
    (tmp_path / "model.parts" / "job.json").write_bytes(b"\xff")
    with pytest.raises(InputError, match="parts of another job"):
        pbos.train(few, counts, **options)
    (tmp_path / "model.parts" / "job.json").write_bytes(job)
    with lock(tmp_path / "model.parts"), pytest.raises(InputError, match="another process is working in"):
        pbos.train(few, counts, **options)
    pbos.train(few, counts, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_folder_of_parts(vectors, no_room, tmp_path):
    few = pbos.WordVectors(vectors.words[:3], vectors.vectors[:3])  # fewer words than parts in EM
    pbos.train(few, output=tmp_path / "memory")
    full, empty, output = tmp_path / "full", tmp_path / "empty", tmp_path / "empty" / "model"
    full.mkdir()
    (full / "thesis.txt").touch()
    empty.mkdir()
    for parts, message in (
        (full, "files other than the parts of a job"),
        (empty, "it is removed at the end"),
        (output, "it is removed at the end"),
        (output / "parts", "does not exist"),
        ("s3://bucket/parts", "mapped into memory"),
    ):
        with pytest.raises(InputError, match=message):
            pbos.train(few, output=output, memory="1G", parts=parts)
    assert (full / "thesis.txt").exists()
    assert not list(empty.iterdir())
    (tmp_path / "link").symlink_to(empty)
    for _ in range(2):
        pbos.train(few, output=tmp_path / "files", memory="1G", parts=tmp_path / "link")
        assert_same(tmp_path / "files", tmp_path / "memory")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "full", "memory"]


LIMITED = """
import resource, sys
import numpy as np, pbos
from pbos.tables.writing import text_rows  # load what is needed before there is a limit
pbos.load().embed(["one", "two"])
path, output, memory = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_DATA, (600 << 20,) * 2)
settings = {"lam": 0.01, "reliability": "even", "confidence": False, "em_rounds": 1, "progress": False}
pbos.train(path, output=output, memory=memory or None, **settings)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such limit")
def test_a_hard_limit_of_memory(tmp_path):
    """The limit is on what the process allocates; mapped files do not count, as they can be dropped at any time."""
    random, letters = np.random.default_rng(0), np.array(list("etaoinshrdlu"))
    words = dict.fromkeys("".join(letters[random.integers(12, size=n)]) for n in random.integers(4, 12, size=40_000))
    vectors = pbos.WordVectors(words, random.standard_normal((len(words), 300), np.float32))
    vectors.write(tmp_path / "vectors.bin")

    def run(name, memory):
        command = [sys.executable, "-c", LIMITED, tmp_path / "vectors.bin", tmp_path / name, memory]
        return subprocess.run(command, capture_output=True, text=True)

    assert run("limited", "600M").returncode == 0
    assert "MemoryError" in run("failed", "").stderr
    settings = {"lam": 0.01, "reliability": "even", "confidence": False, "em_rounds": 1}
    pbos.train(vectors, **settings, output=tmp_path / "free")
    assert_same(tmp_path / "limited", tmp_path / "free")
    assert {path.name for path in tmp_path.iterdir()} == {"vectors.bin", "limited", "free"}


def test_what_is_refused(vectors, tmp_path):
    with pytest.raises(InputError, match="memory needs the folder of the model; pass output"):
        pbos.train(vectors, memory="1G")
    with pytest.raises(InputError, match="scheduler needs the folder of the model; pass output"):
        pbos.train(vectors, scheduler="local")
    for memory in ("lots", "1M", 0, -1):
        with pytest.raises(InputError, match="memory must be"):
            pbos.train(vectors, memory=memory, output=tmp_path / "model")
    with pytest.raises(InputError, match="unknown dtype 'float8'"):
        pbos.train(vectors, dtype="float8")


# The plan -------------------------------------------------------------------------------------------------------------


def test_the_plan_of_few_words_is_exact():
    words = samples.english_vectors(2000, 1).words
    plan = Plan.of(words, 100, PRESETS["pbos"])
    subwords = {word[i:j] for word in words for i in range(len(word)) for j in range(i + 1, len(word) + 1)}
    assert plan.subwords == len(subwords) + 1  # and the root
    assert plan.weights == sum(len(word) * (len(word) + 1) // 2 for word in words)
    model = pbos.train(samples.english_vectors(2000, 10))
    plan = Plan.of(words, 10, PRESETS["default"])
    assert plan.vectors == pytest.approx(len(model.subword_vectors), rel=0.3)


def test_the_plan_of_sgd_has_its_weights_in_memory():
    words = samples.english_vectors(2000, 1).words
    ridge, sgd, unit = (
        Plan.of(words, 100, Preset.named(name, settings), memory=1 << 30)
        for name, settings in (("pbos", {"solver": "ridge"}), ("pbos", {}), ("pbos-n", {}))
    )
    assert sgd.in_files - ridge.in_files >= 2 * 8 * sgd.weights
    assert unit.in_files - sgd.in_files >= 4 * 100 * (2 * unit.vectors + 2000)


def test_an_unpacked_index_does_not_wait_for_the_garbage_collector():
    """It would come on top of the plan: 32 bytes for each subword."""
    model = pbos.load()
    subwords = Subwords(model.index, model.spelling, None, pack_strings(["word", "words"]))
    subwords.weights(["wording", "Words"])
    left = weakref.ref(subwords)
    gc.disable()
    del subwords
    gc.enable()
    assert left() is None


def test_a_plan_from_a_sample(monkeypatch):
    words = samples.english_vectors(20_000, 1).words
    exact = Plan.of(words, 100, PRESETS["default"])
    monkeypatch.setattr("pbos.training.plan.SAMPLE", 2000)
    found = Plan.of(words, 100, PRESETS["default"])
    for name in ("subwords", "weights", "shared", "vectors"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=0.25), name


def test_too_little_memory():
    plan = Plan(3_000_000, 300, 40_000_000, 160_000_000, 5_200_000, 10_800_000, 2, 8 << 30)
    assert plan.checked() is plan
    assert plan.spills
    assert plan.in_memory > 20 << 30 > 8 << 30 > plan.in_files
    with pytest.raises(
        InputError, match=r"3,000,000 words x 300 need about [\d.]+G of memory, but only 2G may be used"
    ):
        plan._replace(memory=2 << 30).checked()
    assert not plan._replace(memory=64 << 30).spills
