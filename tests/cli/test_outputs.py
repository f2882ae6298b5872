"""What the command line writes: files of every format, read by other libraries; models that are there; long strings."""

import csv
import gzip
import io
import json
import os
import re
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import pbos
from pbos.cli.app import COMMANDS, MEASURES
from pbos.cli.common import BATCH
from pbos.errors import InputError, PbosWarning, warn

WORDS = [*(f"high{number}low" for number in range(BATCH)), "naïve", "low"]  # more than a batch


@pytest.fixture
def model(tmp_path):
    words = ["high", "higher", "low", "lower", "slow"]
    vectors = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    pbos.train((words, vectors)).save(tmp_path / "m")
    return pbos.load(tmp_path / "m")


def read_gensim(path, binary=False):
    found = pytest.importorskip("gensim.models").KeyedVectors.load_word2vec_format(path, binary=binary)
    return found.index_to_key, found.vectors


def read_kv(path):
    found = pytest.importorskip("gensim.models").KeyedVectors.load(path)
    return found.index_to_key, found.vectors


def read_glove(path):
    rows = [line.split(" ") for line in Path(path).read_text("utf-8").splitlines()]
    return [row[0] for row in rows], np.array([row[1:] for row in rows], np.float32)


def read_npz(path):
    with np.load(path) as found:
        return found["words"].tolist(), found["vectors"]


def read_safetensors(path):
    from safetensors.numpy import load_file

    found = load_file(path)
    return found["words"].tobytes().decode().split("\n"), found["vectors"]


def read_json(path):
    with (gzip.open if path.endswith("gz") else open)(path, "rt", encoding="utf-8") as lines:
        rows = list(map(json.loads, lines))
    return [row["word"] for row in rows], np.array([row["vector"] for row in rows], np.float32)


def read_table(path):
    from pyarrow import feather, parquet

    found = (parquet if path.endswith("parquet") else feather).read_table(path)
    return found["word"].to_pylist(), np.array(found["vector"].to_pylist(), np.float32)


READERS = {
    "out.vec": read_gensim,
    "out.txt": read_gensim,
    "out.vec.gz": read_gensim,
    "out.vec.bz2": read_gensim,
    "out.bin": lambda path: read_gensim(path, binary=True),
    "out.bin.gz": lambda path: read_gensim(path, binary=True),
    "out.glove": read_glove,
    "out.npz": read_npz,
    "out.kv": read_kv,
    "out.safetensors": read_safetensors,
    "out.json": read_json,
    "out.jsonl.gz": read_json,
    "out.npy": lambda path: (WORDS, np.load(path)),
    "out.parquet": read_table,
    "out.feather": read_table,
}
NO_WORD_VECTORS = ("out.npy", "out.parquet", "out.feather", "out.json", "out.jsonl.gz")


@pytest.mark.parametrize("name", READERS)
def test_the_suffix_chooses_the_format(run, model, tmp_path, name):
    """Every float32 comes back as it was."""
    if name.endswith(("parquet", "feather")):
        pytest.importorskip("pyarrow")
    if name.endswith("kv"):
        pytest.importorskip("gensim")
    (tmp_path / "words.txt").write_text("\n".join(WORDS), encoding="utf-8")
    assert run("embed", "-m", "m", "-i", "words.txt", "-o", name) == (0, "", "")
    words, vectors = READERS[name](str(tmp_path / name))
    assert words == WORDS
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, model.embed(WORDS))
    if name not in NO_WORD_VECTORS:
        assert np.array_equal(pbos.WordVectors.read(name).vectors, vectors)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_an_output_stays_private_and_may_have_a_long_name(run, model, tmp_path):
    name = tmp_path / ("n" * 246 + ".vec")
    name.touch()
    name.chmod(0o600)
    assert run("embed", "high", "-o", name)[0] == 0
    assert name.read_text().split()[2] == "high"
    assert stat.S_IMODE(name.stat().st_mode) == 0o600


def test_text_and_json_on_stdout_have_all_digits(run, model):
    assert run("embed", "-m", "m", "low")[1] == "low " + " ".join(f"{x:.9g}" for x in model["low"]) + "\n"
    found = json.loads(run("embed", "-m", "m", "low", "--json")[1])["vector"]
    assert np.array_equal(np.array(found, np.float32), model["low"])


@pytest.mark.parametrize("name", ["out.vec", "out.bin", "out.pipe"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes(run, model, tmp_path, name):
    """Text without a header, unless the suffix says something else."""
    os.mkfifo(tmp_path / name)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / name).read_bytes()))
    reader.start()
    assert run("embed", "-m", "m", "low", "high", "-o", name)[0] == 0
    reader.join()
    (tmp_path / "read").write_bytes(read[0])
    vectors = pbos.WordVectors.read("read")
    assert vectors.words == ["low", "high"]
    assert np.array_equal(vectors.vectors, model.embed(["low", "high"]))
    assert (read[0].split(b"\n")[0].split() == [b"2", b"7"]) == (name != "out.pipe")


def test_vectors_of_no_words(run, model, tmp_path):
    for name in READERS:
        if not name.endswith(("parquet", "feather", "kv")):
            assert run("embed", "-m", "m", "-o", name, stdin="")[0] == 0
    assert np.load("out.npy").shape == (0, 7)
    assert pbos.WordVectors.read("out.vec").words == pbos.WordVectors.read("out.npz").words == []


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["words.csv", "words.tsv", "words.csv.gz"])
def test_csv_is_a_table(run, model, tmp_path, name):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [["word", "count"], ["low", "1"], ["null", "2"], ["", "3"], ["1984", ""], ["new, york", "5"]]
    text = io.StringIO()
    csv.writer(text, delimiter="\t" if "tsv" in name else ",", lineterminator="\n").writerows(rows)
    data = text.getvalue().encode("utf-8-sig")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    embed = ["embed", "-m", "m", "-i", name]
    code, _, err = run(*embed, "--column", "word", "-o", "out.parquet")
    assert (code, err.splitlines()) == (
        0,
        [
            "pbos: warning: 1 missing word was given null",
            "pbos: warning: 1 word has no subword with a vector and got zeros: 1984",
        ],
    )
    table = parquet.read_table("out.parquet")
    words = [word for word, _ in rows[1:]]
    assert [table["word"].to_pylist(), table["count"].to_pylist()] == [words, [count for _, count in rows[1:]]]
    found = [vector and np.float32(vector) for vector in table["vector"].to_pylist()]
    assert found[2] is None
    assert np.array_equal(found[4], model["new, york"])
    _, out, _ = run(*embed, "--json")  # `word` is the default
    assert [json.loads(line)["word"] for line in out.splitlines()] == [word for word in words if word]
    assert run("segment", "-m", "m", "-i", name)[1].split("\t")[0] == "low"
    (tmp_path / "v.glove").write_text("low 1 2\nnull 1 1\nhigh 2 3\n")
    assert run("complete", "v.glove", name, "-o", "v.npz")[0] == 0
    assert pbos.WordVectors.read("v.npz").words[3:] == ["new, york"]
    code, _, err = run(*embed, "--column", "token")
    choice = "choose one of its columns: word (string), count (string)"
    assert (code, err) == (2, f'pbos: {name} has 0 columns of strings named "token"; {choice}\n')


def test_a_bad_row_of_csv_does_not_stop_a_run(run, model, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_text("word,n\nlow,1\nhigh\nslow,2,3\nhigher,4\n")
    with pytest.warns(PbosWarning, match=r"words.csv, line 3: 2 rows do not have 2 columns; the word is missing"):
        code, out, err = run("embed", "-m", "m", "-i", "words.csv")
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["low", "higher"])
    assert err == "pbos: warning: 2 missing words were left out (first: words.csv, row 2)\n"
    with pytest.warns(PbosWarning, match="2 rows"):
        assert run("embed", "-m", "m", "-i", "words.csv", "-o", "out.npy")[0] == 0
    rows = np.load("out.npy")  # a row for each line
    assert np.array_equal(rows[[0, 3]], model.embed(["low", "higher"]))
    assert not rows[1:3].any()
    with pytest.warns(PbosWarning, match="2 rows"):
        assert run("embed", "-m", "m", "-i", "words.csv", "-o", "out.parquet")[0] == 0
    from pyarrow import parquet

    assert parquet.read_table("out.parquet")["n"].to_pylist() == ["1", None, None, "4"]


@pytest.mark.parametrize("name", ["words.csv", "words.tsv.gz"])
@pytest.mark.parametrize(
    ("first", "column"),
    [("high", "word"), ("Lemma", "word"), ("word", "word"), ("Tokens", "Tokens"), ("TEXT", "TEXT"), (" name", " name")],
)
def test_the_header_of_a_single_column_is_optional(run, model, tmp_path, name, first, column):
    """A line is the header if it is a usual one."""
    parquet = pytest.importorskip("pyarrow.parquet")
    data = f"{first}\nlow\nslow\n".encode("utf-8-sig")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    words = [*([first] if first in ("high", "Lemma") else []), "low", "slow"]
    _, out, _ = run("segment", "-m", "m", "-i", name)
    assert [line.split("\t")[0] for line in out.splitlines()] == words
    for output in ("out.parquet", "folder/"):
        assert run("embed", "-m", "m", "-i", name, "-o", output)[0] == 0
        table = parquet.read_table(output)
        assert table.column_names == [column, "vector"]
        assert table[column].to_pylist() == words
    _, out, _ = run("segment", "-m", "m", "-i", name, "--column", first)  # then it is a header, whatever it is
    assert [line.split("\t")[0] for line in out.splitlines()] == ["low", "slow"]


def test_columns_of_csv_need_names(run, model, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_text("high,1\nlow,2\n")
    code, _, err = run("embed", "-m", "m", "-i", "words.csv")
    assert code == 2
    choice = 'high (string), 1 (string), name it "word", or name a plain list of words .txt'
    assert err == f'pbos: words.csv has 0 columns of strings named "word"; choose one of its columns: {choice}\n'
    (tmp_path / "words.csv").write_text("high\nlow\n")
    code, _, err = run("embed", "-m", "m", "-i", "words.csv", "--column", "word")
    choice = "choose one of its columns: high (string)"
    assert (code, err) == (2, f'pbos: words.csv has 0 columns of strings named "word"; {choice}\n')


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("word;n", "words.csv: the first line has no comma; separate columns by commas"),
        ("word\tn", "words.csv: the first line has no comma; separate columns by commas"),
        ('"word"s,n', "words.csv, line 1: text follows a closing quote; write quotes twice"),
    ],
)
def test_columns_that_are_not_csv_are_not_taken_for_a_list(run, model, tmp_path, first, message):
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_text(f"{first}\n{first.replace('word', 'high')}\n")
    code, out, err = run("segment", "-m", "m", "-i", "words.csv")
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith(f"pbos: {message}")


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "arrow"])
def test_all_commands_take_the_column_of_a_table(run, model, tmp_path, kind):
    """As with a text file of the words."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    columns = {"lemma": ["low", "high"], "form": ["lower", "highest"]}
    if kind in ("csv", "tsv"):
        with (tmp_path / f"words.{kind}").open("w", newline="") as stream:
            writer = csv.writer(stream, delimiter="\t" if kind == "tsv" else ",")
            writer.writerows([columns, *zip(*columns.values(), strict=True)])
    else:
        write = parquet.write_table if kind == "parquet" else feather.write_feather
        write(pa.table(columns), f"words.{kind}")
    (tmp_path / "words.txt").write_text("\n".join(columns["form"]))
    (tmp_path / "v.glove").write_text("low 1 2\nhigh 2 3\n")
    for command in (
        ["segment", "-m", "m", "-i"],
        ["explain", "-m", "m", "--json", "-i"],
        ["embed", "-m", "m", "-i"],
        ["neighbors", "-m", "m", "-i"],
        ["neighbors", "-m", "m", "low", "--among"],
        ["complete", "v.glove", "-o", "/dev/stdout"],
    ):
        expected = run(*command, "words.txt")
        assert expected[0] == 0 and (expected[1] or "complete" in command)
        assert run(*command, f"words.{kind}", "--column", "form") == expected
        code, _, err = run(*command, "words.txt", "--column", "form")
        assert (code, err.startswith("pbos: --column is for tables; give it with a file .parquet")) == (2, True)
        assert run(*command, f"words.{kind}", "--column", "nothing")[0] == 2
    assert run("complete", "v.glove", f"words.{kind}", "--text", "--column", "form", "-o", "new.vec")[0] == 2


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs the list of threads")
def test_reading_csv_starts_no_threads(tmp_path):
    """One that was alive at the end, after an error, sometimes aborted the process."""
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_text("name,n\nfoo,1\n")
    code = """
import os
from pbos.tables.columns import open_table

before = len(os.listdir("/proc/self/task"))
with open_table("words.csv", "name") as table:
    batch = next(table.batches)
    print(batch.num_rows, len(os.listdir("/proc/self/task")) - before)
"""
    assert subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True) == "1 0\n"


@pytest.mark.parametrize(
    ("name", "data"),
    [("words.CSV", b"n,word\n1,low\n2,high\n"), ("words.Tsv", b"n\tword\n1\tlow\n2\thigh\n")],
)
def test_the_case_of_a_suffix_does_not_matter(run, model, tmp_path, name, data):
    pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(data)
    (tmp_path / f"{name}.GZ").write_bytes(gzip.compress(data))
    for source in (name, f"{name}.GZ"):
        assert run("embed", "-m", "m", "-i", source, "-o", "out.VEC.GZ") == (0, "", "")
        assert gzip.decompress((tmp_path / "out.VEC.GZ").read_bytes()).split()[:2] == [b"2", b"7"]
        assert pbos.WordVectors.read("out.VEC.GZ").words == ["low", "high"]


def test_counts_are_tables_of_words(run, model, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "text.txt").write_text("low high low\n")
    for name in ("c.tsv", "c.csv.gz"):
        assert run("count", "text.txt", "-o", name)[0] == 0
        assert run("embed", "-m", "m", "-i", name, "-o", "out.vec") == (0, "", "")
        assert pbos.WordVectors.read("out.vec").words == ["low", "high"]


def test_odd_cells_of_csv(run, model, tmp_path):
    pytest.importorskip("pyarrow")
    path, long = tmp_path / "words.csv", "low" * 1_000_000
    path.write_text(f'word,text\nlow,{long}\n\nhigh,"a\nb"\n')
    assert run("embed", "-m", "m", "-i", "words.csv", "-o", "out.parquet") == (0, "", "")
    from pyarrow import parquet

    assert parquet.read_table("out.parquet")["text"].to_pylist() == [long, "a\nb"]
    path.write_text("word,n\n")
    assert run("embed", "-m", "m", "-i", "words.csv", "-o", "out.parquet") == (0, "", "")
    assert parquet.read_table("out.parquet").num_rows == 0
    path.write_bytes(b"word,n\nlow,1\nna\xefve,2\n")
    with pytest.warns(PbosWarning, match=r"words.csv, line 3: 1 line is not UTF-8; U\+FFFD replaces the bad bytes"):
        assert run("embed", "-m", "m", "-i", "words.csv", "-o", "out.npz")[0] == 0
    assert read_npz("out.npz")[0] == ["low", "na\ufffdve"]
    path.write_text('word,n\nlow,1\n"high,2\nslow,3\n')
    code, _, err = run("embed", "-m", "m", "-i", "words.csv")
    assert (code, err) == (2, "pbos: words.csv, line 3: a quote is not closed; close it, or write it twice\n")
    path.write_text("")
    code, _, err = run("embed", "-m", "m", "-i", "words.csv")
    assert (code, err) == (2, "pbos: words.csv is empty; expected a line with the names of columns\n")


def test_words_that_a_format_cannot_hold_are_left_out(run, model, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_text('word\nlow\n"high\nslow"\nhigh low\nhigh\n')
    embed = ["embed", "-m", "m", "-i", "words.csv"]
    with pytest.warns(PbosWarning, match=r"1 word cannot be written as text, left out \(first: 'high\\nslow'\)"):
        _, out, _ = run(*embed)
    assert [line.rsplit(" ", 7)[0] for line in out.splitlines()] == ["low", "high low", "high"]
    with pytest.warns(PbosWarning, match="2 words cannot be written as word2vec-binary, left out"):
        assert run(*embed, "-o", "out.bin")[0] == 0
    words, vectors = READERS["out.bin"]("out.bin")
    assert words == ["low", "high"]
    assert np.array_equal(vectors, model.embed(words))
    with pytest.warns(PbosWarning) as warnings:
        assert run(*embed, "-o", "out.vec")[0] == 0
    assert [str(one.message).partition(" (")[0] for one in warnings] == [
        "1 word cannot be written as word2vec, left out",
        "1 word with a space, which gensim does not read in this format",
    ]
    assert pbos.WordVectors.read("out.vec").words == ["low", "high low", "high"]
    words = [json.loads(line)["word"] for line in run(*embed, "--json")[1].splitlines()]
    assert words == ["low", "high\nslow", "high low", "high"]


def test_joined_files_have_byte_order_marks_inside(run, model, tmp_path):
    (tmp_path / "words.txt").write_bytes("\ufefflow\n\ufeffhigh\n".encode())
    assert run("embed", "-m", "m", "-i", "words.txt", "-o", "out.vec") == (0, "", "")
    assert pbos.WordVectors.read("out.vec").words == ["low", "high"]


def test_a_bad_pair_does_not_stop_a_run(run, model, tmp_path):
    (tmp_path / "pairs.txt").write_text("low\thigh\nhigh\t\n\nlow\tlow\n")
    code, out, err = run("similarity", "-m", "m", "-i", "pairs.txt")
    assert (code, [line.split("\t")[:2] for line in out.splitlines()]) == (0, [["low", "high"], ["low", "low"]])
    assert err == "pbos: warning: 2 missing words were left out (first: pairs.txt, line 2)\n"


# -- models that are there ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["train v.vec -o old", "compress -m m --dtype int8 -o old", "learn text.txt --dims 2 -o old"]
)
def test_a_model_is_replaced_only_by_force(run, model, tmp_path, command):
    (tmp_path / "v.vec").write_text("2 1\nlow 1\nhigh 2\n")
    (tmp_path / "text.txt").write_text("high low high low\n" * 9)
    model.save(tmp_path / "old")
    names = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run(*command.split())
    assert (code, out) == (2, "")
    assert err == "pbos: old has a model already; replace it with --force, or choose another folder\n"
    assert pbos.load("old").config() == model.config()
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert run(*command.split(), "--force")[0] == 0
    assert pbos.load("old").config() != model.config()


def test_an_interrupted_job_goes_on(run, model, tmp_path, monkeypatch):
    """Also if the model is there: the job was interrupted after saving it, or replaces another one."""
    from pbos.training.plan import Plan

    monkeypatch.setattr(Plan, "in_memory", 1 << 50)  # as if the job were large
    (tmp_path / "v.vec").write_text("3 1\nlow 1\nhigh 2\nlower 3\n")
    train = ["train", "v.vec", "--memory", "1G", "-o", "new"]
    with monkeypatch.context() as patch:
        patch.setattr("pbos.training.train.write_model", lambda *_: sys.exit(9))
        assert run(*train)[0] == 9
    assert (tmp_path / "new.parts").is_dir()
    model.save("new")
    assert run(*train)[0] == 0
    assert len(pbos.load("new")) == 3
    assert not (tmp_path / "new.parts").exists()
    assert run(*train)[0] == 2


@pytest.mark.parametrize(
    "command", ["train v.vec --memory 1G --parts empty -o m", "learn t.txt --dims 2 --resume -o m"]
)
def test_a_job_that_has_nothing_to_go_on_with_replaces_no_model(run, model, tmp_path, command):
    (tmp_path / "empty").mkdir()
    (tmp_path / "v.vec").write_text("2 1\nlow 1\nhigh 2\n")
    (tmp_path / "t.txt").write_text("high low high low\n" * 9)
    code, _, err = run(*command.split())
    assert (code, err) == (2, "pbos: m has a model already; replace it with --force, or choose another folder\n")


def test_co_occurrences_that_were_asked_for_stay(run, tmp_path):
    (tmp_path / "t.txt").write_text("high low high low\n" * 9)
    learn = ["learn", "t.txt", "--dims", "2", "-o", "new"]
    assert run(*learn, "--cooccurrences", "new.cooccurrences")[0] == 0
    assert run(*learn, "--force", "--resume")[0] == 0
    assert (tmp_path / "new.cooccurrences").is_dir() and not list(tmp_path.glob("new.counting*"))


def test_models_that_come_with_pbos_in_every_command(run):
    for command in ("segment", "explain", "embed", "neighbors"):
        code, out, err = run(command, "-m", "russian", "кошечка")
        assert code == 0 and "кошеч" in out, err


# -- long strings ------------------------------------------------------------------------------------------------------


def test_no_message_echoes_a_long_string(run, model, tmp_path):
    long = "pneumono" * 12_500
    (tmp_path / "long.txt").write_text("Ж" * 100_000, encoding="utf-8")
    (tmp_path / "spaces.txt").write_text("a " * 50_000)
    commands = [
        ["embed", "-m", "m", "-i", "long.txt", "-o", "out.npy"],
        ["embed", "-m", long, "x"],
        ["embed", "-o", long, "x"],
        ["embed", "-o", f"x.{long}", "x"],
        ["similarity", "-m", "m", "-i", "spaces.txt"],
        ["info", long],
        [long],
        ["info", f"--{long}"],
        ["train", "x", "-o", "y", "--solver", long],
        ["train", long, "-o", "y"],
        ["eval", "similarity", long],
    ]
    for command in commands:
        _, out, err = run(*command)
        assert out == ""
        assert 10 < len(err) < 3000, command
    with pytest.raises(InputError) as error:
        model.embed([long + "\ud800"])
    assert len(str(error.value)) < 1000
    assert str(error.value).endswith("drop the word")
    with pytest.warns(PbosWarning) as warnings:
        warn(long)
    assert len(str(warnings[0].message)) < 1000


# -- files of another kind, and of other line ends ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "train m -o x",
            "m is a pbos model, not word vectors (see pbos info -m); pass the vectors that it was trained on",
        ),
        ("convert m x.npz", "m is a pbos model, not word vectors"),
        ("complete m words.txt -o x.vec", "m is a pbos model, not word vectors"),
        ("embed -m m --vectors m/model.safetensors low", "m/model.safetensors is a pbos model, not word vectors"),
        ("embed -m v.vec low", "this is a file, and a model is a folder: make one with pbos train"),
        ("embed -m m/config.json low", "this is a file, and a model is a folder: give its folder"),
        ("embed -m table low", "it has no config.json; make one of these word vectors with pbos train"),
        ("train commas.csv -o x", "commas.csv: commas separate the numbers; make spaces of them"),
        ("train picture -o x", "picture is not UTF-8 text, but UTF-16 or binary"),
        ("segment -c m low", "is a directory: m"),
        ("segment -c picture low", "picture is not UTF-8 text, but UTF-16 or binary"),
        ("segment -m m -i picture", "picture, line 3 is not UTF-8 text, but UTF-16 or binary"),
        ("embed -m m -i picture -o x/", "picture is not UTF-8 text, but UTF-16 or binary"),
        ("neighbors -m m low --among @", "'' is not the name of a file or folder"),
        ("count picture -o x.tsv", "picture is not UTF-8 text, but UTF-16 or binary"),
        ("count @ -o x.tsv", "'' is not the name of a file or folder"),
        ("learn v.vec -o x", "v.vec: these are word vectors, not text; pbos train makes a model of them"),
        (
            "learn texts -o x",
            "texts is not a folder of co-occurrences: it has no info.json; to read the texts in a folder",
        ),
        ("eval similarity no.tsv -m m", "no such file or directory: no.tsv"),
        ("eval similarity m -m m", "is a directory: m"),
        ("eval similarity picture -m m", "picture is not UTF-8 text, but UTF-16 or binary"),
    ],
)
def test_a_file_of_another_kind_is_named(run, model, tmp_path, arguments, sentence):
    pytest.importorskip("pyarrow")
    vectors = pbos.WordVectors(["low", "high"], np.eye(2, 12))
    vectors.write(tmp_path / "v.vec")
    vectors.write(tmp_path / "table")
    (tmp_path / "words.txt").write_text("low\n")
    (tmp_path / "commas.csv").write_text("low,1,2\nhigh,3,4\n")
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (tmp_path / "texts").mkdir()
    before = sorted(tmp_path.iterdir())
    code, out, err = run(*("" if one == "@" else one for one in arguments.split()))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert sentence in err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "arguments", ["segment -m m -i empty", "embed -m m -i empty -o x.vec", "similarity -m m -i empty"]
)
def test_an_empty_file_is_said_to_be_so(run, model, tmp_path, arguments):
    (tmp_path / "empty").touch()
    assert run(*arguments.split()) == (0, "", "pbos: warning: empty is empty\n")
    assert run("segment", "-m", "m", stdin="") == (0, "", "")  # as in other filters


def test_one_number_per_word_looks_like_counts(run, tmp_path):
    (tmp_path / "counts.tsv").write_text("low\t5\nhigh\t4\nlower\t3\n")
    with pytest.warns(PbosWarning, match="there is only one number per word; pass word counts as counts"):
        run("convert", "counts.tsv", "x.npz")


@pytest.mark.parametrize("end", ["\r", "\r\n"])
@pytest.mark.parametrize(
    ("name", "content", "arguments"),
    [
        ("words.txt", "low\nhigh\n\nslow", "segment -m m -i words.txt"),
        ("words.csv", 'word,n\nlow,1\n"high",2\nslow,3\n', "embed -m m -i words.csv"),
        ("words.tsv", "word\tn\nlow\t1\nhigh\t2\n", "embed -m m -i words.tsv -o out.npy"),
        ("words.txt", "low\nhigh\n", "embed -m m -i words.txt -o out.vec"),
        ("words.txt", "low\nhigh\n", "complete v.vec words.txt -o out.vec"),
        ("words.txt", "low slow\nhigh\n", "complete v.vec words.txt --text --min-count 1 -o out.vec"),
        ("among.txt", "low\nhigh\n", "neighbors -m m slow --among among.txt"),
        ("pairs.tsv", "low\thigh\nhigh\tslow\n", "similarity -m m -i pairs.tsv"),
        ("pairs.tsv", "low\thigh\t3\nhigh\tslow\t4\n", "eval similarity pairs.tsv -m m"),
        ("counts.tsv", "low\t5\nhigh\t3\n", "segment -c counts.tsv high"),
        ("vectors.vec", "2 2\nlow 1 2\nhigh 3 4\n", "convert vectors.vec out.vec"),
        ("text.txt", "low, high.\nslow low\n", "count text.txt -o out.tsv"),
        ("-", "low\nhigh\n", "explain -m m"),
    ],
)
def test_lines_may_end_in_cr_everywhere(run, model, tmp_path, end, name, content, arguments):
    pytest.importorskip("pyarrow")
    pbos.WordVectors(["low", "lower"], np.eye(2)).write(tmp_path / "v.vec")
    results = []
    for written in (content, content.replace("\n", end)):
        if name != "-":
            (tmp_path / name).write_text(written, newline="")
        results.append(run(*arguments.split(), stdin=written))
        results += [path.read_bytes() for path in sorted(tmp_path.glob("out.*"))]
    assert results[: len(results) // 2] == results[len(results) // 2 :]
    assert results[0][0] == 0


# -- tabs and line ends in words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["file", "stdin", "folder"])
def test_of_a_list_with_tabs_the_first_column_is_read(run, model, tmp_path, how):
    pytest.importorskip("pyarrow")
    content = "low\t3\nhigh \t\t5\nslow\n  lower\t\n"
    (tmp_path / "words.txt").write_text(content)
    place = "stdin" if how == "stdin" else str(tmp_path / "words.txt") if how == "folder" else "words.txt"
    with pytest.warns(PbosWarning) as warnings:
        if how == "folder":
            assert run("embed", "-m", "m", "-i", "words.txt", "-o", "out/")[0] == 0
            words = read_table("out/part-00000.parquet")[0]
        else:
            given = [] if how == "stdin" else ["-i", "words.txt"]
            _, out, _ = run("segment", "-m", "m", "--json", *given, stdin=content)
            words = [json.loads(line)["word"] for line in out.splitlines()]
    assert words == ["low", "high", "slow", "lower"]
    sentence = f"{place}, line 1: 2 lines have a tab; the word is what is before it"
    assert [str(one.message) for one in warnings] == [sentence]


def test_a_list_whose_lines_are_no_words(run, model, tmp_path):
    (tmp_path / "words.txt").write_text("low\n" + "high and low " * 4 + "\n" + "low" + " 0.25" * 100 + "\n")
    with pytest.warns(PbosWarning, match=r"words.txt, line 2: 2 lines have over 10 words; expected one per line"):
        _, out, _ = run("segment", "-m", "m", "-i", "words.txt")
    assert len(out.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "columns"),
    [
        ("segment -m m -n 2 X", 3),
        ("segment -m m -i odd.csv", 3),
        ("segment -m m --sample 2 X", 3),
        ("similarity -m m X low", 3),
        ("neighbors -m m -n 2 X", 3),
        ("neighbors -m m --positive X --negative low", 3),
        ("neighbors -m m low --among odd.csv", 3),
    ],
)
def test_a_tab_or_a_line_end_in_a_word_breaks_no_table(run, model, tmp_path, arguments, columns):
    pytest.importorskip("pyarrow")
    word = "lo\tw\nhigh\rer"
    (tmp_path / "odd.csv").write_text(f'word,n\n"{word}",1\nslow,2\n', newline="")
    _, out, _ = run(*(word if one == "X" else one for one in arguments.split()))
    assert {line.count("\t") for line in out.splitlines()} == {columns - 1}
    assert "lo\\tw\\nhigh\\rer" in out
    if "positive" not in arguments and "among" not in arguments:
        _, out, _ = run(*(word if one == "X" else one for one in arguments.split()), "--json")
        found = json.loads(out.split("\n")[0])
        assert word in (found.get("word"), found.get("words", [None])[0])


def test_a_line_of_an_explanation_is_one(run, model):
    _, out, _ = run("explain", "-m", "m", "lo\tw\nhigh")
    assert out.startswith("lo\\tw\\nhigh   coverage")
    assert not [line for line in out.splitlines() if "\t" in line or line.startswith("high")]


# -- a terminal --------------------------------------------------------------------------------------------------------

EVIL = "hi\x1b]0;owned\x07gh\x1b[2J\x08\x9b31m\x7f\u202egh\u2066[red]"  # title, screen, color, direction; no markup
RAW = ["\x1b]0;", "\x07", "\x1b[2J", "\x08", "\x9b", "\x7f", "\u202e", "\u2066"]


@pytest.fixture
def terminal(run, monkeypatch):
    """Run a command whose stdout and stderr are a terminal; return its exit code and what the terminal gets."""
    pty, tty = pytest.importorskip("pty"), pytest.importorskip("tty")

    def run_there(*arguments):
        ours, theirs = pty.openpty()
        tty.setraw(theirs)
        got = bytearray()

        def read():
            while not got.endswith(b"\x04"):
                got.extend(os.read(ours, 1 << 16))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            with monkeypatch.context() as patch, open(theirs, "w", encoding="utf-8", closefd=False) as stream:
                patch.setattr(sys, "stdout", stream)
                patch.setattr(sys, "stderr", stream)
                patch.setenv("TERM", "xterm")
                patch.setattr("warnings.showwarning", lambda *one: stream.write(warnings.formatwarning(*one)))
                code = run(*arguments)[0]
        finally:
            os.write(theirs, b"\x04")
            reader.join()
            os.close(ours), os.close(theirs)
        return code, got[:-1].decode()

    return run_there


@pytest.fixture
def evil(tmp_path):
    """A model whose words and info may do harm, and files with such names and contents."""
    words = ["high", EVIL, f"{EVIL}er", "low", "lower"]
    vectors = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    info = {"note": f"{EVIL}\nwords  1,000,000", f"{EVIL}\nfake": 1}
    pbos.train((words, vectors), info=info).save(tmp_path / "evil")
    greek = pbos.WordVectors(["α", "β", "αβ"], np.eye(3))  # knows no part of the others
    greek.write(tmp_path / "greek.vec")
    pbos.train(greek).save(tmp_path / "greek")
    (tmp_path / f"{EVIL}.txt").write_text(f"{EVIL}\n")
    (tmp_path / "words.txt").write_text(f"{EVIL}\nж{EVIL}\n")
    (tmp_path / f"{EVIL}.tsv").write_text(f"high\tlow\t1\n{EVIL}\tlow\t2\n")
    pbos.WordVectors(words, vectors).write(tmp_path / f"{EVIL}.vec")


COMMANDS_WITH_WORDS = [
    "info -m evil",
    "info -m evil --json",
    "neighbors -m evil high",
    "neighbors -m evil X --json",
    "neighbors -m evil --positive X --negative low",
    "neighbors -m evil low --among words.txt",
    "segment -m evil X",
    "segment -m evil --json X",
    "explain -m evil X --neighbors 3",
    "explain -m evil --json X",
    "similarity -m evil X low",
    "similarity -m evil -i X.tsv",
    "embed -m evil X",
    "embed -m evil X --json",
    "embed -m greek X -o out.npy",
    "complete greek.vec words.txt -m greek -o out.vec",
    "embed -m evil -i words.txt",
    "complete X.vec words.txt -m evil -o out.vec",
    "convert X.vec X.npz",
    "eval similarity X.tsv -m evil",
    "eval similarity X",
    "get X",
    "train X -o y",
    "embed -m X high",
    "segment -c X high",
    "count X -o y",
    "embed -m evil -i X.txt",
    "X",
    "info --X",
    "train x -o y --solver X",
]


@pytest.mark.parametrize("arguments", COMMANDS_WITH_WORDS)
def test_no_word_reaches_a_terminal_raw(terminal, evil, arguments):
    _, shown = terminal(*(one.replace("X", EVIL) for one in arguments.split()))
    assert [raw for raw in RAW if raw in shown] == []
    assert re.search(r"hi\\(u00|x)1b\]0;owned", shown)
    if arguments.endswith("--json"):
        json.loads(shown.splitlines()[0])


def test_the_name_of_a_file_is_no_markup_in_a_progress_bar(terminal, tmp_path):
    pbos.WordVectors(["low", "high"], np.eye(2)).write(tmp_path / "[red]v.vec")
    code, shown = terminal("convert", "[red]v.vec", "v.npz")
    assert code == 0
    assert "reading [red]v.vec" in shown


def test_a_newline_in_an_info_starts_no_line(run, evil):
    _, out, _ = run("info", "-m", "evil")
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert facts["words"].strip() == "5"
    assert not any(name.startswith("fake") for name in facts)


def test_an_info_that_pbos_has_not_written(run, model, tmp_path):
    config = json.loads((tmp_path / "m" / "config.json").read_text("utf-8"))
    del config["checksum"]
    for training in (5, None, {"losses": 5}, {"residual": "x"}, {"tried": {"a": "b"}}):
        (tmp_path / "m" / "config.json").write_text(json.dumps({**config, "info": {"training": training}}))
        code, out, _ = run("info", "-m", "m")
        assert (code, "words" in out) == (0, True)


def test_what_is_piped_stays_as_it_is(run, evil):
    assert run("similarity", "-m", "evil", EVIL, "low")[1].startswith(f"{EVIL}\tlow\t")
    assert json.loads(run("neighbors", "-m", "evil", "--json", EVIL)[1])["word"] == EVIL


# -- a new user --------------------------------------------------------------------------------------------------------


def test_python_m_pbos():
    command = [sys.executable, "-m", "pbos", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"pbos {pbos.__version__}\n"


def test_a_model_as_an_argument_gets_a_hint(run):
    for command in ("info", "serve", "compress -o x"):
        code, _, err = run(*command.split(), "my-model")
        assert code == 2
        assert err.endswith("(my-model). Choose a model with -m\n")


def test_summaries_are_whole_and_fit_a_line(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for group, commands in (([], COMMANDS), (["eval"], MEASURES)):
        _, out, _ = run(*group, "--help")
        listed = out.partition("Commands:\n")[2].splitlines()
        for command in commands:
            line = next(line for line in listed if line.split()[0] == command.__name__)
            assert line.endswith(".") and not line.endswith("...")
            assert command.__doc__.startswith(line.split(maxsplit=1)[1])


def test_shells_complete_commands_and_options():
    def complete(line):
        at = str(line.count(" "))
        asked = {"_PBOS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": at}
        command = [sys.executable, "-m", "pbos"]
        done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
        return done.stdout.split()

    assert complete("pbos com") == ["complete", "compress", "compile"]
    assert complete("pbos train --mem") == ["--memory"]
    assert complete("pbos train --solver ") == ["ridge", "sgd"]


def test_every_command_that_prints_results_has_json(run):
    silent = {"count", "learn", "complete", "compress", "convert", "serve"}
    for group, commands in (([], COMMANDS), (["eval"], MEASURES)):
        for command in commands:
            _, out, _ = run(*group, command.__name__, "--help")
            assert ("--json" in out) == (bool(group) or command.__name__ not in silent)


def test_vectors_are_not_scored_as_pairs(run, model, tmp_path):
    pytest.importorskip("scipy")
    vectors = pbos.WordVectors(["low", "high", "slow"], np.eye(3) + 0.5)
    for name in ("v.glove", "v.vec", "v.bin", "v.npz"):
        vectors.write(tmp_path / name)
        code, out, err = run("eval", "similarity", "-m", "m", name)
        assert (code, out) == (2, "")
        assert err.startswith(f"pbos: {name}: these look like word vectors, not pairs of words and their scores; ")


def test_published_vectors_are_not_downloaded_for_a_model_that_cannot_be_saved(run, model, tmp_path):
    code, out, err = run("get", "glove-6b-100d", "-o", "m")
    assert (code, out) == (2, "")
    assert err == "pbos: m has a model already; replace it with --force, or choose another folder\n"
