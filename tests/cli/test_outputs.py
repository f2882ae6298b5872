"""What the command line writes: files of every format, read by other libraries; tables."""

import csv
import gzip
import io
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import pbos
from pbos.cli.common import BATCH
from pbos.errors import PbosWarning

WORDS = [*(f"high{number}low" for number in range(BATCH)), "naïve", "low"]  # more than a batch


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
    name = tmp_path / ("n" * 230 + ".vec")
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
    assert (read[0].split(b"\n")[0].split() == [b"2", b"5"]) == (name != "out.pipe")


def test_vectors_of_no_words(run, model, tmp_path):
    for name in READERS:
        if not name.endswith(("parquet", "feather", "kv")):
            assert run("embed", "-m", "m", "-o", name, stdin="")[0] == 0
    assert np.load("out.npy").shape == (0, 5)
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


def test_a_bad_row_of_csv_is_an_error(run, model, tmp_path):
    pytest.importorskip("pyarrow")
    for rows, found in (("low,1\n\nhigh\nslow,2,3\n", 1), ('low,"1\n"\nslow,2,3\n', 3)):
        (tmp_path / "words.csv").write_text(f"word,n\n{rows}higher,4\n")
        for output in ("out.vec", "out.npy", "out.parquet", "folder/"):
            code, out, err = run("embed", "-m", "m", "-i", "words.csv", "-o", output)
            message = f"words.csv, line 4: expected 2 columns, found {found}; fix this row"
            assert (code, out) == (2, "") and err.startswith("pbos: ") and err.endswith(f"{message}\n")
            assert not (tmp_path / output).is_file()


def test_columns_of_csv_need_names(run, model, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_text("high,1\nlow,2\n")
    code, _, err = run("embed", "-m", "m", "-i", "words.csv")
    assert code == 2
    choice = 'high (string), 1 (string), name it "word", or name a plain list of words .txt'
    assert err == f'pbos: words.csv has 0 columns of strings named "word"; choose one of its columns: {choice}\n'
    (tmp_path / "words.csv").write_text("high\nlow\n")
    for column, hint in (([], ', name it "word", or name a plain list of words .txt'), (["--column", "word"], "")):
        code, _, err = run("embed", "-m", "m", "-i", "words.csv", *column)
        choice = f"choose one of its columns: high (string){hint}"
        assert (code, err) == (2, f'pbos: words.csv has 0 columns of strings named "word"; {choice}\n')
    assert run("segment", "-m", "m", "-i", "words.csv", "--column", "high")[1].startswith("low\t")


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("word;n", 'words.csv has 0 columns of strings named "word"; choose one of its columns: word;n (string)'),
        ('"word"s,n', "words.csv, line 1: ',' expected after '\"'; close quotes, and double the ones inside"),
        ('word\n"high', "words.csv, line 2: unexpected end of data; close quotes"),
        ("", "words.csv is empty; expected a header line with the names of the columns"),
    ],
)
def test_what_is_not_csv_is_an_error(run, model, tmp_path, first, message):
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_text(f"{first}\n" if first else "")
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
        assert (code, err.startswith("pbos: --column is for tables; use it with a .parquet")) == (2, True)
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
        assert gzip.decompress((tmp_path / "out.VEC.GZ").read_bytes()).split()[:2] == [b"2", b"5"]
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
    with pytest.warns(PbosWarning, match=r"words.csv, line 3: 1 line is not UTF-8; bad bytes became U\+FFFD"):
        assert run("embed", "-m", "m", "-i", "words.csv", "-o", "out.npz")[0] == 0
    assert read_npz("out.npz")[0] == ["low", "na\ufffdve"]
    path.write_text('word,n\nlow,1\n"high,2\nslow,3\n')
    code, _, err = run("embed", "-m", "m", "-i", "words.csv")
    assert (code, err) == (
        2,
        "pbos: words.csv, line 3: unexpected end of data; close quotes, and double the ones inside\n",
    )
    path.write_text("")
    code, _, err = run("embed", "-m", "m", "-i", "words.csv")
    assert (code, err) == (2, "pbos: words.csv is empty; expected a header line with the names of the columns\n")


def test_words_that_a_format_cannot_hold_are_left_out(run, model, tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "words.csv").write_text('word\nlow\n"high\nslow"\nhigh low\nhigh\n')
    embed = ["embed", "-m", "m", "-i", "words.csv"]
    with pytest.warns(PbosWarning, match=r"1 word cannot be written as text, left out \(first: 'high\\nslow'\)"):
        _, out, _ = run(*embed)
    assert [line.rsplit(" ", 5)[0] for line in out.splitlines()] == ["low", "high low", "high"]
    with pytest.warns(PbosWarning, match="2 words cannot be written as word2vec-binary, left out"):
        assert run(*embed, "-o", "out.bin")[0] == 0
    words, vectors = READERS["out.bin"]("out.bin")
    assert words == ["low", "high"]
    assert np.array_equal(vectors, model.embed(words))
    with pytest.warns(PbosWarning, match=r"^1 word cannot be written as word2vec, left out \(first: 'high.nslow'\)$"):
        assert run(*embed, "-o", "out.vec")[0] == 0
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
