"""Embedding of many files: the words and vectors of `model.embed`, and the same bytes wherever the parts were made."""

import functools
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import pbos
from pbos.adapters.arrow import Embedded
from pbos.corpus import embed_files as embedding
from pbos.corpus.embed_files import embed_files, embed_part, name_of
from pbos.errors import FormatError, InputError, ModelError
from pbos.files import atomic
from pbos.files import paths as files
from pbos.jobs import cluster

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model(confident, tmp_path_factory):
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("models") / "model"
    confident.save(folder)
    return folder


@pytest.fixture(scope="module")
def words(small_vectors):
    return [*small_vectors.words[1400:1600], "ЖЖ", "x-ray", "ЖЖ"]


@pytest.fixture
def inputs(tmp_path, monkeypatch, words):
    """Files of all kinds in the working folder; their words, one after the other, are `words` four times."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(embedding, "ROWS", 100)
    monkeypatch.setattr(embedding, "BYTES", 500)
    table = pa.table({"id": range(len(words)), "word": words})
    text = "".join(f"{word}\n" for word in words).encode()
    Path("in").mkdir()
    parquet.write_table(table, "in/a.parquet", row_group_size=30)
    with pa.OSFile("in/b.arrow", "wb") as stream, pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    Path("in/c.txt").write_bytes(files.BOM + text.replace(b"\n", b"\r\n"))
    Path("in/d.txt.gz").write_bytes(gzip.compress(text[:-1]))
    return "in/*"


def parts(folder):
    return sorted(Path(folder).glob("part-*"))


def content(folder):
    """The bytes of all files."""
    return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def matrix(column):
    return np.array(column.to_pylist(), np.float32)


# -- results -----------------------------------------------------------------------------------------------------------


def test_all_words_of_all_kinds_of_files(inputs, model, words):
    done = embed_files(model, inputs, "out", column="word", threads=2)
    tables = [parquet.read_table(file) for file in parts("out")]
    lines = len(Path("in/c.txt").read_bytes())
    assert len(tables) == 3 + 1 + -(-lines // 500) + 1  # 203 rows in groups of 30, at most 100 in a part
    assert [len(table) for table in tables[:4]] == [90, 90, 23, 203]
    assert [table.column_names for table in tables[3:5]] == [["id", "word", "vector"], ["word", "vector"]]
    found = [word for table in tables for word in table["word"].to_pylist()]
    assert found == 4 * words
    vectors = np.concatenate([matrix(table["vector"]) for table in tables])
    assert np.array_equal(vectors, pbos.load(model).embed(found))
    zeros = [word for word, vector in zip(found, vectors, strict=True) if not vector.any()]
    assert len(zeros) > 0
    assert done == Embedded(len(tables), 0, len(found), len(zeros), zeros[:5])


def test_the_same_bytes_anywhere(inputs, client, model):
    options = {"column": "word", "confidence_column": "trust"}
    embed_files(model, inputs, "one", threads=1, **options)
    done = embed_files(model, inputs, "two", scheduler=client, **options)
    assert content("one") == content("two")
    assert (Path("one/_SUCCESS").read_bytes(), done.parts) == (b"", len(parts("one")))


@pytest.mark.parametrize("source", ["in/a.parquet", "in/c.txt", "in/d.txt.gz"])
def test_one_part_is_what_the_plain_command_writes(inputs, run, model, monkeypatch, source):
    monkeypatch.setattr(embedding, "ROWS", 1 << 20)
    monkeypatch.setattr(embedding, "BYTES", 1 << 20)
    assert run("embed", "-m", model, "-i", source, "-o", "plain.parquet")[0] == 0
    assert run("embed", "-m", model, "-i", source, "-o", "folder/")[0] == 0
    assert [file.read_bytes() for file in parts("folder")] == [Path("plain.parquet").read_bytes()]


@given(content=st.binary(max_size=60), size=st.integers(1, 30))
def test_every_line_is_in_one_part(tmp_path_factory, content, size):
    file = tmp_path_factory.mktemp("lines") / "lines.txt"
    file.write_bytes(content)
    found = []
    for first in range(0, len(content) + 1, size):
        with file.open("rb") as stream:
            found += files.lines_between(stream, first, first + size)
    *ended, last = content.split(b"\n")
    expected = b"\n".join([*ended, *([last] if last else [])]).removeprefix(files.BOM).split(b"\n") if content else []
    assert [line.removesuffix(b"\n") for line in found] == expected


def test_other_libraries_read_the_folder(inputs, model, words):
    embed_files(model, ["in/a.parquet"], "out")
    ids = list(range(len(words)))
    assert parquet.read_table("out")["id"].to_pylist() == ids
    assert pd.read_parquet("out")["id"].tolist() == ids
    assert pl.read_parquet("out/*.parquet")["id"].to_list() == ids
    assert duckdb.sql("select id from 'out/*.parquet' order by id").fetchnumpy()["id"].tolist() == ids


def test_empty_files(inputs, model):
    parquet.write_table(pa.table({"word": pa.array([], pa.string())}), "in/empty.parquet")
    Path("in/empty.txt").touch()
    assert embed_files(model, ["in/empty.parquet", "in/empty.txt"], "out") == Embedded(2, 0, 0, 0, [])
    assert [parquet.read_table(file).column_names for file in parts("out")] == 2 * [["word", "vector"]]


def test_a_file_without_a_single_word(tmp_path, model):
    for name, words in (("1", pa.array(["high"])), ("2", pa.nulls(2))):  # as pandas writes a column of None
        parquet.write_table(pa.table({"word": words, "n": [1] * len(words)}), tmp_path / f"{name}.parquet")
    sources = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    result = pbos.embed_files(model, sources, tmp_path / "out", column="word", missing="null", progress=False)
    assert (result.words, result.missing) == (3, 2)
    first, second = (parquet.read_table(tmp_path / "out" / f"part-0000{part}.parquet") for part in (0, 1))
    np.testing.assert_array_equal(first["vector"].to_pylist(), pbos.load(model).embed(["high"]))
    assert second["vector"].to_pylist() == [None, None]


def test_missing_words(inputs, model):
    parquet.write_table(pa.table({"word": ["a", None, "b", ""]}), "in/missing.parquet")
    done = embed_files(model, "in/missing.parquet", "out", missing="null")
    assert parquet.read_table("out")["vector"].is_null().to_pylist() == [False, True, False, True]
    assert done.uncovered == 0  # a missing word is not one without a known subword


@pytest.mark.parametrize("where", [None, "client"])
def test_a_model_in_memory(inputs, client, confident, small_vectors, where):
    given = confident.with_targets(small_vectors)
    embed_files(given, "in/a.parquet", "out", exact=True, scheduler=client if where else None)
    table = parquet.read_table("out")
    assert np.array_equal(matrix(table["vector"]), given.embed(table["word"].to_pylist(), exact=True))
    assert sorted(path.name for path in Path().iterdir()) == ["in", "out"]  # the model was saved, and is gone


# -- a second run ------------------------------------------------------------------------------------------------------


def test_finished_parts_are_kept(inputs, model):
    first = embed_files(model, inputs, "out", column="word")
    before, times = content("out"), [file.stat().st_mtime_ns for file in parts("out")]
    assert embed_files(model, inputs, "out", column="word") == Embedded(0, first.parts, 0, 0, [])
    Path("out/part-00002.parquet").unlink()
    done = embed_files(model, inputs, "out", column="word")
    assert (done.parts, done.kept, done.words) == (1, first.parts - 1, 23)
    assert content("out") == before
    assert [a == b.stat().st_mtime_ns for a, b in zip(times, parts("out"), strict=True)].count(False) == 1


@pytest.mark.parametrize("other", ["model", "inputs", "options"])
def test_another_job_is_refused(inputs, model, other):
    embed_files(model, "in/a.parquet", "out")
    before = content("out")
    changed = {"model": model, "sources": "in/a.parquet"}
    changed |= {"model": {"model": None}, "inputs": {"sources": "in/b.arrow"}, "options": {"missing": "zeros"}}[other]
    with pytest.raises(
        InputError, match=f"out has vectors from another job \\(with different {other}\\); choose another"
    ):
        embed_files(target="out", **changed)
    assert content("out") == before


@pytest.mark.parametrize("change", ["order", "content"])
def test_parts_of_files_in_another_order_or_changed_are_not_mixed(inputs, model, monkeypatch, change):
    """Names and sizes are the same: the parts would be of other words, some twice and some not at all."""
    sources = ["in/a.parquet", "in/c.txt"]
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(embedding, "embed_part", lambda *given: embed_part(*given) if given[-1][0] < 2 else 1 / 0)
        embed_files(model, sources, "out", threads=1)
    before = content("out")
    assert "part-00001.parquet" in before
    if change == "order":
        sources.reverse()
    else:
        text = Path("in/c.txt").read_bytes()
        Path("in/c.txt").write_bytes(text[::-1])
        os.utime("in/c.txt", (1, 1))
    with pytest.raises(InputError, match=r"out has vectors from another job \(with different inputs\); choose another"):
        embed_files(model, sources, "out")
    assert content("out") == before


def test_a_job_without_a_part_can_be_replaced(inputs, model):
    Path("words.txt").write_text("a\n\n")
    with pytest.raises(InputError, match=r"words.txt, line 2 is an empty string"):
        embed_files(model, "words.txt", "out")
    assert embed_files(model, "words.txt", "out", missing="zeros").words == 2


@pytest.mark.parametrize("missing", [["part-00002.parquet"], None])
def test_a_folder_is_not_complete_while_a_part_is_missing(inputs, model, monkeypatch, missing):
    """Neither while the part is made again, nor if that is interrupted; without parts it may be another job's."""
    embed_files(model, inputs, "out", column="word")
    whole = content("out")
    for name in missing or [path.name for path in parts("out")]:
        Path("out", name).unlink()
    seen = []

    def interrupted(embedder, folder, numbered):
        seen.append((Path(folder, "_SUCCESS").exists(), json.loads(Path(folder, "_job.json").read_bytes())["options"]))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(embedding, "embed_part", interrupted)
        embed_files(model, inputs, "out", column="word", missing="error" if missing else "zeros", threads=1)
    assert [(there, options["missing"]) for there, options in seen] == [(False, "error" if missing else "zeros")]
    assert not Path("out/_SUCCESS").exists()
    assert embed_files(model, inputs, "out", column="word").parts == len(missing or parts("out"))
    assert content("out") == whole
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(embedding, "finish", lambda _: 1 / 0)
        embed_files(model, inputs, "out", column="word")
    assert content("out") == whole  # nothing was missing, so it stayed complete


# -- losses ------------------------------------------------------------------------------------------------------------


def once(marker):
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def killed_while_writing(marker, victim, embedder, folder, numbered):
    """Embed a part; the first time for the third part, kill this process or another one in the middle."""
    if numbered[0] == 2 and once(marker):
        with atomic.write_whole(f"{folder}/{name_of(2)}") as stream:
            stream.write(b"half of it")
            stream.flush()
            os.kill(victim or os.getpid(), signal.SIGKILL)
            time.sleep(60)
    return embed_part(embedder, folder, numbered)


def test_a_worker_is_killed(inputs, client, model, tmp_path, monkeypatch):
    embed_files(model, inputs, "plain", column="word")
    monkeypatch.setattr(embedding, "embed_part", functools.partial(killed_while_writing, tmp_path / "marker", None))
    embed_files(model, inputs, "out", column="word", scheduler=client)
    assert (tmp_path / "marker").exists()
    assert content("out") == content("plain")  # and nothing else is in the folder


def test_links_are_not_taken_for_what_workers_leave(tmp_path):
    for name in ("out", "job.parts"):
        (tmp_path / name).mkdir()
    (tmp_path / "job.parts" / "job.json").touch()
    (tmp_path / "out" / ".part-00000.parquet.0123456789ab.tmp").symlink_to(tmp_path / "job.parts")
    embedding.finish(str(tmp_path / "out"))
    assert (tmp_path / "job.parts" / "job.json").exists()


@pytest.fixture
def start(tmp_path_factory, monkeypatch):
    """Start a scheduler and a worker as processes of their own."""
    monkeypatch.setattr(cluster, "PATIENCE", 300)  # a busy machine is slow to start them
    started = []

    def run(*arguments):
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "corpus"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "dask", *map(str, arguments), "--no-dashboard"]
        environment = {**os.environ, "PYTHONPATH": path}
        started.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True))
        return started[-1].pid

    def start():
        file = tmp_path_factory.mktemp("scheduler") / "scheduler.json"
        pid = run("scheduler", "--host", "127.0.0.1", "--port", 0, "--scheduler-file", file)
        run("worker", "--scheduler-file", file, "--nthreads", 1, "--no-nanny")
        while started[-2].poll() is None:
            with suppress(FileNotFoundError, json.JSONDecodeError):  # not there yet, or not whole
                return json.loads(file.read_text())["address"], pid
            time.sleep(0.05)
        raise AssertionError("the scheduler ended")

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_scheduler_is_killed(inputs, start, model, tmp_path, monkeypatch, run):
    embed_files(model, inputs, "plain", column="word", missing="null")
    address, pid = start()
    monkeypatch.setattr(embedding, "embed_part", functools.partial(killed_while_writing, tmp_path / "marker", pid))
    command = ("embed", "-m", model, "-i", inputs, "--column", "word", "-o", "out/", "--scheduler")
    code, out, err = run(*command, address)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"pbos: the scheduler at {address} was lost during embed-words; run the same again" in err
    made = {file.name: file.stat().st_mtime_ns for file in parts("out")}
    assert made.keys() >= {"part-00000.parquet", "part-00001.parquet"}
    assert not Path("out/_SUCCESS").exists()

    code, _, err = run(*command, start()[0])
    assert (code, err.splitlines()[0]) == (0, f"pbos: {len(made)} of {len(parts('plain'))} parts were already there")
    assert content("out") == content("plain")
    assert {name: (Path("out") / name).stat().st_mtime_ns for name in made} == made


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [None, "client"])
@pytest.mark.parametrize(
    ("source", "options", "kind", "sentence"),
    [
        ("in/none*", {}, InputError, "in/none*: no such file"),
        ("in/numbers.parquet", {}, InputError, "numbers.parquet has 0 columns of strings"),
        ("in/a.parquet", {"vector_column": "id"}, InputError, 'the table already has a column "id"'),
        ("in/broken.parquet", {}, FormatError, "broken.parquet is damaged"),
        ("in/a.parquet", {"model": None, "exact": True}, InputError, "this model does not have the given vectors"),
        ("in/a.parquet", {"model": "nowhere"}, ModelError, "no model folder at"),
        ("in/a.parquet", {"target": "no/out"}, InputError, "no/out cannot be written: its folder does not exist"),
        ("in/a.parquet", {"target": "in/c.txt"}, InputError, "in/c.txt is a file; choose a folder"),
        ("in/a.parquet", {"target": "in"}, InputError, "in contains other files; choose another folder"),
        ("in/a.parquet", {"missing": "nonsense"}, InputError, "missing"),
    ],
)
def test_bad_input_leaves_nothing(inputs, client, model, where, source, options, kind, sentence):
    parquet.write_table(pa.table({"number": [1]}), "in/numbers.parquet")
    Path("in/broken.parquet").write_bytes(b"PAR1")
    before = sorted(Path().rglob("*"))
    with pytest.raises(kind) as caught:
        embed_files(**{"model": model, "sources": source, "target": "out", **options, "scheduler": where and client})
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("where", [None, "client"])
def test_bad_words_are_named(inputs, client, model, where):
    scheduler = where and client
    parquet.write_table(pa.table({"word": 99 * ["a"] + [None]}), "rows.parquet", row_group_size=60)
    with pytest.raises(InputError, match=r'rows.parquet, column "word", row 100 is missing'):
        embed_files(model, "rows.parquet", "one", scheduler=scheduler)
    Path("lines.txt").write_bytes(250 * b"a\n" + b"\n")
    with pytest.raises(InputError, match=r"lines.txt, after byte 500, line 1 is an empty string"):
        embed_files(model, "lines.txt", "two", scheduler=scheduler)
    assert embed_files(model, "lines.txt", "three", missing="null", scheduler=scheduler).missing == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("high -o out/", "a folder of vectors is made from files: name them with --input"),
        ("-i in/c.txt --scheduler local", "a folder of vectors is made from files: name them with --input, and"),
        ("-i in/c.txt -o out/ --json", "--json writes JSON lines; name the output .jsonl"),
        ("-i in/c.txt -o out/ --scheduler tcp://127.0.0.1:1", "no Dask scheduler answers at tcp://127.0.0.1:1"),
    ],
)
def test_bad_commands(inputs, run, monkeypatch, arguments, sentence):
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    code, out, err = run("embed", *arguments.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not Path("out").exists()


def test_the_command_sums_the_words_without_a_vector(inputs, run, client, model):
    address = client.scheduler.address
    code, out, err = run("embed", "-m", model, "-i", inputs, "--column", "word", "-o", "out", "--scheduler", address)
    assert (code, out) == (0, "")
    expected = embed_files(model, inputs, "plain", column="word")
    assert err.startswith(f"pbos: warning: {expected.uncovered} words have no subword with a vector and got zeros: ЖЖ")
