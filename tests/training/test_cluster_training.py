"""Training on the workers of a cluster: the same bytes as here, also if workers are lost in every stage."""

import filecmp
import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import samples

import pbos
from pbos.errors import ClusterError
from pbos.jobs.cluster import Workers
from pbos.jobs.workspace import Workspace

FILES = ("model.safetensors", "config.json", "README.md")
STAGES = {
    "count-subwords",
    "merge-subword-counts",
    "fit-probabilities",
    "weigh-words",
    "merge-subwords",
    "solve-dimensions",
}


@pytest.fixture(scope="module")
def vectors():
    return samples.english_vectors(1500, 40)


@pytest.fixture(scope="module", autouse=True)
def small_parts():
    """Several parts in every stage, here and there. They are cut here; workers get the places."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pbos.training.system.SMALL_PART", 400)
        yield


def assert_same(one, other):
    assert all(filecmp.cmp(one / name, other / name, shallow=False) for name in FILES)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "int8", "heldout": 0.1},
        {"max_vectors": 900},
        {"preset": "pbos", "epochs": 2},
        {"preset": "pbos-n", "epochs": 2},
    ],
)
def test_the_model_is_the_same_on_a_cluster(client, vectors, options, tmp_path):
    pbos.train(vectors, **options, output=tmp_path / "there", scheduler=client)
    pbos.train(vectors, **options, output=tmp_path / "here")
    assert_same(tmp_path / "there", tmp_path / "here")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "there"]


def test_the_map_from_contexts_is_the_same_on_a_cluster(client, small_vectors, tmp_path):
    text = samples.topical_sentences(small_vectors, 5000)
    table = pbos.WordVectors(small_vectors.words[:1500], small_vectors.vectors[:1500])
    pbos.train(table, text=text, output=tmp_path / "there", scheduler=client)
    pbos.train(table, text=text, output=tmp_path / "here")
    assert_same(tmp_path / "there", tmp_path / "here")
    assert pbos.load(tmp_path / "there").has_contexts


class Killing(Workers):
    """A pool that kills a worker in each stage: the first to run the first item of it."""

    folder: Path

    def map(self, stage, function, items, *others, **options):
        marked = partial(killed_once, function, self.folder / stage)
        return super().map(stage, marked, list(enumerate(items)), *others, **options)


def killed_once(function, mark, numbered):
    number, item = numbered
    if number == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return function(item)


def test_workers_are_killed_in_every_stage(client, vectors, monkeypatch, tmp_path):
    monkeypatch.setattr("pbos.training.counting.PART", 400)
    monkeypatch.setattr("pbos.jobs.cluster.Workers", Killing)
    monkeypatch.setattr(Killing, "folder", tmp_path / "killed", raising=False)
    Killing.folder.mkdir()
    pbos.train(vectors, output=tmp_path / "there", scheduler=client)
    assert {path.name for path in Killing.folder.iterdir()} == STAGES
    pbos.train(vectors, output=tmp_path / "here")
    assert_same(tmp_path / "there", tmp_path / "here")


def test_only_workers_need_the_files(client, tmp_path):
    found = Workers(client).map("where", process_of, [Traveler(), Traveler()])
    assert os.getpid() not in found  # where the scheduler of this cluster runs
    array = Workspace(tmp_path).keep("some", np.arange(3))
    (tmp_path / "some.npy").unlink()
    with pytest.raises(ClusterError, match=r"a worker cannot find .*some.npy; workers need the same files"):
        Workers(client).map("sum", np.sum, [array])


class Traveler:
    """Knows the processes in which it was unpickled."""

    processes: tuple[int, ...] = ()

    def __reduce__(self):
        return arrived, (self.processes,)


def arrived(processes):
    traveler = Traveler()
    traveler.processes = (*processes, os.getpid())
    return traveler


def process_of(traveler):
    (process,) = traveler.processes
    return process
