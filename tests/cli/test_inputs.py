"""What commands read: models that are there, long strings, files of another kind, odd line ends and tabs."""

import json
import sys

import numpy as np
import pytest

import pbos
from pbos.errors import InputError, PbosWarning, warn

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
    assert err == "pbos: old already contains a model; replace it with --force, or choose another folder\n"
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
        patch.setattr("pbos.training.train.make_model", lambda *_: sys.exit(9))
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
    assert (code, err) == (2, "pbos: m already contains a model; replace it with --force, or choose another folder\n")


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
        ("embed -m table low", "it has no config.json; train one on these word vectors with pbos train"),
        ("train commas.csv -o x", "commas.csv: numbers have commas, semicolons or bars"),
        ("train picture -o x", "picture is not UTF-8 text, but UTF-16 or binary"),
        ("segment -c m low", "is a directory: m"),
        ("segment -c picture low", "picture is not UTF-8 text, but UTF-16 or binary"),
        ("segment -m m -i picture", "picture, line 3 is not UTF-8 text, but UTF-16 or binary"),
        ("embed -m m -i picture -o x/", "picture is not UTF-8 text, but UTF-16 or binary"),
        ("neighbors -m m low --among @", "'' is not a valid name for a file or folder"),
        ("count picture -o x.tsv", "picture is not UTF-8 text, but UTF-16 or binary"),
        ("count @ -o x.tsv", "'' is not a valid name for a file or folder"),
        ("learn v.vec -o x", "v.vec: these are word vectors, not text; train a model on them with pbos train"),
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
    assert run("segment", "-m", "m", stdin="") == (0, "", "pbos: warning: stdin is empty\n")


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
    parquet = pytest.importorskip("pyarrow.parquet")
    content = "low\t3\nhigh \t\t5\nslow\n  lower\t\n"
    (tmp_path / "words.txt").write_text(content)
    if how == "folder":
        assert run("embed", "-m", "m", "-i", "words.txt", "-o", "out/")[0] == 0
        words = parquet.read_table("out")["word"].to_pylist()
    else:
        given = [] if how == "stdin" else ["-i", "words.txt"]
        _, out, _ = run("segment", "-m", "m", "--json", *given, stdin=content)
        words = [json.loads(line)["word"] for line in out.splitlines()]
    assert words == ["low", "high", "slow", "lower"]


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
