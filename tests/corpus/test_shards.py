"""Counting on a cluster: the same bytes as on threads, whatever is lost on the way."""

import gzip
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import pbos
from pbos.corpus import cooccurrences, counting, sources
from pbos.errors import ClusterError, InputError

WORDS = ["high", "higher", "highest", "low", "lower", "lowest", "don't", "émigré", "über-cool", "東京", "the", "of"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A folder with plain, compressed and Parquet files, and many small ones, about 30 shards in all."""
    folder = tmp_path_factory.mktemp("texts")
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, 201)
    words = [f"{word}{number or ''}" for number in range(20) for word in WORDS][:200]
    lines = [" ".join(random.choice(words, 12, p=weights / weights.sum())) + "." for _ in range(3000)]
    (folder / "a.txt").write_text("\n".join(lines[:1000]), "utf-8")
    (folder / "b.txt.gz").write_bytes(gzip.compress("\n".join(lines[1000:1800]).encode()))
    parquet.write_table(pa.table({"text": lines[1800:2500]}), folder / "c.parquet")
    for number in range(100):
        some = lines[2500 + 5 * number : 2505 + 5 * number]
        (folder / f"d{number:03}.txt").write_text("\n".join(some), "utf-8")
    (folder / "empty.txt").touch()
    return folder


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 10_000)
    monkeypatch.setattr(counting, "FAN_IN", 4)


@pytest.fixture(scope="module")
def expected(texts, tmp_path_factory):
    """What counting on threads makes."""
    folder = tmp_path_factory.mktemp("expected")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "BLOCK", 10_000)
        patch.setattr(counting, "FAN_IN", 4)
        pbos.count(texts / "*", folder / "counts.tsv", cooccurrences=folder / "pairs", threads=2)
    return content_of(folder)


def content_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Results --------------------------------------------------------------------------------------------------------------


def test_a_cluster_counts_the_same_bytes(client, texts, expected, tmp_path):
    counts = pbos.count(texts / "*", tmp_path / "counts.tsv", cooccurrences=tmp_path / "pairs", scheduler=client)
    assert content_of(tmp_path) == expected
    assert len(pbos.Cooccurrences.load(tmp_path / "pairs").blocks) > 20
    assert dict(counts) == counts_by_hand(texts)


def counts_by_hand(texts):
    found = [(texts / "a.txt").read_text("utf-8"), gzip.decompress((texts / "b.txt.gz").read_bytes()).decode()]
    found += parquet.read_table(texts / "c.parquet")["text"].to_pylist()
    found += [path.read_text("utf-8") for path in texts.glob("d*.txt")]
    return words_of("\n".join(found))


def words_of(text):
    return Counter(re.findall(r"[東京]|[a-zéü0-9]+(?:['-][a-zéü0-9]+)*", text))


def test_words_alone(client, texts, tmp_path):
    """Without contexts, the same counts, and nothing else is left."""
    here = pbos.count(texts / "*", tmp_path / "here.tsv")
    there = pbos.count(texts / "*", tmp_path / "there.tsv", scheduler=client)
    assert dict(here) == dict(there) == counts_by_hand(texts)
    assert (tmp_path / "here.tsv").read_bytes() == (tmp_path / "there.tsv").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["here.tsv", "there.tsv"]  # noqa: PTH208


def test_a_model_is_the_same(client, texts, tmp_path):
    names = [texts / "a.txt", texts / "b.txt.gz"]
    pbos.learn(names, dims=4).save(tmp_path / "here")
    pbos.learn(names, dims=4, scheduler=client, cooccurrences=tmp_path / "pairs", output=tmp_path / "there")
    assert content_of(tmp_path / "here") == content_of(tmp_path / "there")
    pbos.learn(tmp_path / "pairs", dims=4).save(tmp_path / "again")
    assert content_of(tmp_path / "again") == content_of(tmp_path / "there")


def test_text_that_can_be_read_once_is_counted_on_a_cluster(client, tmp_path):
    lines = ["high and low"] * 3000
    counts = pbos.count((line for line in lines), tmp_path / "counts.tsv", scheduler=client)
    assert dict(counts) == dict.fromkeys(["high", "and", "low"], 3000)


def test_on_the_command_line(client, texts, run, tmp_path):
    address = client.scheduler.address
    code, _, err = run("count", str(texts / "*.txt"), "-o", "here.tsv")
    found = words_of("\n".join(path.read_text("utf-8") for path in texts.glob("*.txt")))
    assert (code, err) == (0, f"pbos: wrote here.tsv: {len(found)} words, {found.total():,} times in all\n")
    code, _, err = run("count", str(texts / "*.txt"), "-o", "there.tsv", "--scheduler", address)
    assert code == 0, err
    assert (tmp_path / "here.tsv").read_bytes() == (tmp_path / "there.tsv").read_bytes()
    code, _, err = run("learn", texts / "a.txt", "--dims", "4", "-o", "m", "--scheduler", address)
    assert code == 0, err
    assert run("learn", texts / "a.txt", "--dims", "4", "-o", "plain")[0] == 0
    assert content_of(tmp_path / "m") == content_of(tmp_path / "plain")


# Losses ---------------------------------------------------------------------------------------------------------------


def killing(function, marker, pid=None, later=False):
    """The function, except that its third call, on any worker, kills a process, its own one if no other is given.

    With `later`, it does so when a file of a run was just written.
    """

    def run(*arguments, **options):
        for number in range(3):
            try:
                (marker / str(number)).mkdir()
            except FileExistsError:
                continue
            if number == 2 and later:
                cooccurrences.save_array = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            elif number == 2:
                os.kill(pid or os.getpid(), signal.SIGKILL)
            break
        return function(*arguments, **options)

    marker.mkdir()
    return run


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(
    ("module", "name", "later"),
    [
        (sources, "pieces_of_files", False),
        (counting, "digest_of_shard", False),
        (counting, "count_shard", False),
        (counting, "count_shard", True),
        (counting, "merge_runs", False),
        (counting, "merge_runs", True),
    ],
)
def test_a_worker_is_killed(client, texts, expected, tmp_path, monkeypatch, module, name, later):
    monkeypatch.setattr(module, name, killing(getattr(module, name), tmp_path / "calls", later=later))
    out = tmp_path / "out"
    out.mkdir()
    pbos.count(texts / "*", out / "counts.tsv", cooccurrences=out / "pairs", scheduler=client)
    assert (tmp_path / "calls" / "2").exists()
    assert content_of(out) == expected
    assert sorted(os.listdir(out)) == ["counts.tsv", "pairs"]  # noqa: PTH208


SCHEDULER = """
import time
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_second_run_goes_on_after_the_scheduler_was_lost(texts, client, expected, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    call = partial(pbos.count, texts / "*", out / "counts.tsv", cooccurrences=out / "pairs")
    process = subprocess.Popen([sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip()
    with monkeypatch.context() as patch:
        patch.setattr(counting, "count_shard", killing(counting.count_shard, tmp_path / "calls", process.pid))
        with pytest.raises(ClusterError, match="was lost"):
            call(scheduler=address)
    process.stdout.close()
    process.wait()
    done = {path.name for path in (out / "pairs.parts").glob("[!.]*")}
    assert done
    with pytest.raises(InputError, match=r"pairs.parts is from an interrupted run"):
        call(scheduler=client)
    counted = []
    monkeypatch.setattr(counting, "earlier_runs", noting(counting.earlier_runs, counted))
    call(scheduler=client, resume=True)
    assert content_of(out) == expected
    assert counted and done == {run.name for run in counted} | {"job.json"}


def noting(function, runs):
    """The function, which also notes the runs that it returns."""

    def run(*arguments):
        runs.extend(function(*arguments))
        return list(runs)

    return run


def test_a_cluster_needs_a_place_that_workers_share(client, texts):
    with pytest.raises(InputError, match="scheduler needs a place to keep the counts; pass output=FILE"):
        pbos.count(texts / "a.txt", scheduler=client)
    with pytest.raises(InputError, match="scheduler needs a place to keep the counts; pass cooccurrences=FOLDER"):
        pbos.learn(texts / "a.txt", scheduler=client)
