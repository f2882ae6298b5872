"""No word of a model or file can make a terminal do something."""

import json
import os
import re
import sys
import threading
import warnings

import numpy as np
import pytest

import pbos

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
