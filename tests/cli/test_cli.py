"""The command line: what goes wrong, exit codes, help, streams, Ctrl-C."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pbos
from pbos.cli.app import COMMANDS, MEASURES

# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("segment -m nowhere x", "no model folder at nowhere"),
        (
            "embed -m v.vec x",
            "no model folder at v.vec; this is a file, and a model is a folder: make one with pbos train",
        ),
        ("segment -m m -c counts.csv x", "give a model with --model or counts with --counts, not both"),
        ("segment -c nowhere.csv x", "nowhere.csv"),
        ("segment -i words.txt x", "give words as arguments or a file with --input, not both"),
        ("segment -i nowhere.txt", "no such file or directory: nowhere.txt"),
        ("embed -o out.npy --json x", "--json writes JSON lines; name the output .jsonl"),
        ("embed x -o out.csv", "out.csv: unknown suffix .csv; use .vec, .txt, .bin, "),
        ("embed x -o out", "out: the suffix chooses the format, and there is none; use .vec, "),
        ("embed x -o out.npy.gz", "out.npy.gz: npy cannot be written compressed; leave out .gz"),
        ("embed x --confidence -o out.vec", "--confidence needs a table or .jsonl as output file"),
        ("embed --missing skip -o x.parquet x", "--missing skip is for formats other than tables"),
        ("similarity one", "similarity takes two words, or pairs from a file or stdin; got 1 word"),
        ("train nowhere.vec -o m", "no such file or directory: nowhere.vec"),
        ("train v.vec -o counts.csv", "is a file, but a pbos model is a folder"),
        ("train v.vec -o no/where", "does not exist"),
        ("compress -m nowhere -o x", "no model folder at nowhere"),
        ("complete v.vec words.txt -o x.what", "x.what: unknown suffix .what"),
        ("complete v.vec words.txt -o no/x.vec", "no/x.vec cannot be written: its folder does not exist"),
        ("complete v.vec nowhere.txt -o x.vec", "no such file or directory: nowhere.txt"),
        ("complete nowhere.vec words.txt -o x.vec", "no such file or directory: nowhere.vec"),
        ("complete v.vec spaces.txt -o x.bin", "the word 'a b' cannot be written as word2vec-binary"),
        ("complete v.vec words.txt -o x.vec -m nowhere", "no model folder at nowhere"),
        ("complete v.vec words.txt -o x.vec --min-confidence 2", "min_confidence must be a number from 0 to 1, got 2"),
        ("convert nowhere x.vec", "no such file or directory: nowhere"),
        ("convert v.vec x.what", "x.what"),
        ("convert v.vec no/x.vec", "no such file or directory: no/x.vec"),
        ("embed x -o .", "a folder of vectors is made from files"),
        ("embed x -o no/x.npy", "no such file or directory: no/x.npy"),
        ("explain x --svg x.png", "x.png: --svg writes SVG; choose a name that ends in .svg"),
        ("explain x y --svg x.svg", "--svg draws one word; give a single one"),
        ("train bad.vec -o x", "bad.vec, line 3"),
        ("segment -c bad.csv x", "bad.csv, line 2"),
        ("train v.vec --lam 0 -o x", 'lam must be a number from 1e-30 to 1e30, or "auto", got 0.0'),
        ("train v.vec --preset pbos-n --solver ridge -o x", 'unit_length needs solver="sgd"'),
        ("segment --boundaries x", "--boundaries needs word counts; give them with --counts, or leave it out"),
        ("segment --types x", "--types needs word counts; give them with --counts, or leave it out"),
        (
            "segment -m m --min-prob-words 1 x",
            "--min-prob-words needs word counts; give them with --counts, or leave it out",
        ),
        ("segment --em-rounds 0 x", "--em-rounds needs word counts; give them with --counts, or leave it out"),
        ("segment -c counts.csv --min-prob-words 9 x", "min_prob_words 9 leaves single characters only"),
        ("segment -c counts.csv --min-prob-words 0 x", "min_prob_words must be at least 1, got 0"),
        ("explain -c counts.csv --neighbors 3 x", "--neighbors needs a model"),
        ("embed --missing null x", "--missing null is for tables"),
        ("embed --column word x", "--column is for tables"),
        ("embed --exact x", "this model does not have the given vectors"),
        ("neighbors --positive king queen", "give words, or --positive and --negative ones, not both"),
        ("segment -i binary", "binary, line 1 is not UTF-8 text, but UTF-16 or binary; expected one word per line"),
        ("similarity -i words.txt", "words.txt, line 1: expected two words separated by a tab"),
    ],
)
def test_bad_input_gets_one_sentence_and_code_2(run, counts, vectors, arguments, sentence, tmp_path):
    (tmp_path / "words.txt").write_text("x\n")
    (tmp_path / "spaces.txt").write_text("a b\n")
    (tmp_path / "binary").write_bytes(b"high\0\n")
    (tmp_path / "bad.vec").write_text("2 2\na 1 2\nb 1\n")
    (tmp_path / "bad.csv").write_text("a,1\nb,-1\n")
    before = sorted(tmp_path.iterdir())
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("pbos: ")
    assert sentence in err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("nonsense", "nonsense"),
        ("segment --nonsense", "--nonsense"),
        ("segment -n 0 x", "--number"),
        ("train", "VECTORS"),
        ("embed --threads x", "--threads"),
        ("train v.vec -o x --solver magic", "'magic' is not one of: ridge, sgd"),
        ("train v.vec -o x --lam best", "'best' is not one of: auto, NUMBER"),
        ("convert v.vec x --format magic", "'magic' is not one of: word2vec, "),
        ("complete v.vec words.txt", "--output"),
        ("train v.vec -o x --seed -1", "--seed"),
        ("compress -o x --dtype int4", "'int4' is not one of: float32, float16, int8"),
    ],
)
def test_wrong_usage_is_code_2(run, arguments, problem):
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert problem in err


HELP = ["", "eval", *(one.__name__ for one in COMMANDS), *(f"eval {one.__name__}" for one in MEASURES)]


def test_version_and_help(run):
    assert run("--version") == (0, f"pbos {pbos.__version__}\n", "")
    for command in HELP:
        code, out, _ = run(*command.split(), "--help")
        assert code == 0
        assert "Examples:" in out or command == "eval"


def test_help_without_arguments(run):
    for command in ([], ["eval"]):
        _, out, err = run(*command)
        assert (out + err).splitlines() == run(*command, "--help")[1].splitlines()


def pbos_process(*arguments, **options):
    command = [sys.executable, "-c", "from pbos.cli import main; main()", *map(str, arguments)]
    return subprocess.Popen(command, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})


def test_output_is_utf8_whatever_the_system_would_write(model, tmp_path):
    system = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    (tmp_path / "words").write_text("naïve😀", encoding="utf-8")
    command = ["explain", "-m", tmp_path / "m", "-i", tmp_path / "words"]
    process = pbos_process(*command, env={**os.environ, **system})
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert out.decode("utf-8").splitlines() == str(model.explain("naïve😀")).splitlines()


def test_help_imports_nothing_heavy():
    code = """if True:
        import sys, pbos.cli
        for command in sys.argv[1:]:
            sys.argv = ["pbos", *command.split(), "--help"]
            try:
                pbos.cli.main()
            except SystemExit:
                pass
        print(*sys.modules)
        """
    out = subprocess.run([sys.executable, "-c", code, *HELP], capture_output=True, text=True, check=True).stdout
    assert not {"numba", "numpy", "safetensors"} & set(out.splitlines()[-1].split())


def test_the_first_use_says_on_a_terminal_that_it_compiles(model, tmp_path):
    """Once, in Python as on the command line."""
    pytest.importorskip("pty")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    use = f"import pbos; model = pbos.load({str(tmp_path / 'm')!r}); model['high']; model.segment('high')"
    for code, first in ((use, True), ("from pbos.cli import main; main()", False)):
        ours, theirs = os.openpty()
        command = [sys.executable, "-c", code, "segment", "-m", tmp_path / "m", "high"]
        subprocess.run(command, stderr=theirs, env=environment, check=True)
        os.write(theirs, b".")
        said = b""
        while not said.endswith(b"."):  # a terminal may give line by line
            said += os.read(ours, 1 << 16)
        sentence = "pbos: compiling for this machine, the first time only; this takes some seconds\r\n"
        assert said.decode() == sentence * first + "."
        os.close(ours), os.close(theirs)


def test_compiling_is_not_announced_elsewhere(monkeypatch, capsys):
    from pbos.kernels import Announcer

    def event_of(module):
        function = type("Function", (), {"__module__": module})
        return type("Event", (), {"data": {"dispatcher": type("Dispatcher", (), {"py_func": function})}})

    Announcer().on_start(event_of("pbos.kernels.trie"))  # not a terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    announcer = Announcer()
    announcer.on_start(event_of("others"))
    assert capsys.readouterr().err == ""
    announcer.on_start(event_of("pbos.kernels.trie"))
    announcer.on_start(event_of("pbos.kernels.lattice"))
    assert capsys.readouterr().err.count("compiling") == 1
    monkeypatch.setattr(sys, "stderr", None)
    Announcer().on_start(event_of("pbos.kernels.trie"))


def test_a_warning_is_one_line(tmp_path):
    (tmp_path / "v.vec").write_text("3 1\na 1\nb 2\na 3\n")
    process = pbos_process(
        "convert", tmp_path / "v.vec", tmp_path / "v.bin", env={**os.environ, "NUMBA_DISABLE_JIT": "1"}
    )
    _, err = process.communicate()
    warning, done = err.decode().splitlines()
    assert warning.startswith("pbos: warning: ") and "dropped 1 duplicate word" in warning
    assert done.endswith("v.bin: 2 words x 1")


def test_a_reader_that_stops_is_no_error(tmp_path):
    (tmp_path / "words.txt").write_text("higher\n" * 200_000)
    process = pbos_process("segment", "-i", tmp_path / "words.txt")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("command", ["--help", "info"])
def test_a_full_device(tmp_path, command):
    with Path("/dev/full").open("w") as full:
        process = pbos_process(command, stdout=full)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (2, b"pbos: no space left on device\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["embed", "high", "-o", ""],
        ["count", "words", "-o", ""],
        ["learn", "words", "-o", ""],
        ["compress", "-o", ""],
        ["complete", "words", "words", "-o", ""],
    ],
)
def test_an_output_without_a_name(run, arguments, tmp_path):
    (tmp_path / "words").write_text("high 1 2\n")
    code, _, err = run(*arguments)
    assert (code, err) == (2, "pbos: '' is not a valid name for a file or folder; choose another\n")
    assert [path.name for path in tmp_path.iterdir()] == ["words"]


@pytest.mark.parametrize(
    "command",
    ["convert - words", "train - -o model", "train words -o -"],
)
def test_a_dash_is_not_the_name_of_a_file(run, command, tmp_path):
    (tmp_path / "words").write_text("high 1 2\n")
    code, out, err = run(*command.split())
    assert (code, out, err.count("\n")) == (2, "", 1) and "/dev/stdin" in err
    assert [path.name for path in tmp_path.iterdir()] == ["words"]
    assert run("convert", "words", "./-")[0] == 0 and (tmp_path / "-" / "words.txt").read_text() == "high\n"


def test_files_with_the_names_of_stdin(run, monkeypatch, tmp_path):
    """A file named - does not hide stdin, and a file named stdin is a file."""
    (tmp_path / "-").write_text("other words\n")
    (tmp_path / "stdin").write_text("low\n")
    for arguments in ([], ["-"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"high high\n")))
        assert run("count", *arguments, "-o", "counts.tsv")[0] == 0
        assert (tmp_path / "counts.tsv").read_text().split() == ["word", "count", "high", "2"]
    code, out, _ = run("segment", "-i", "stdin")
    assert (code, out.split("\t")[0]) == (0, "low")


def test_ctrl_c_in_a_callback_from_c():
    """Python ignores exceptions there, such as in callbacks of Numba's compiler."""
    code = """
import ctypes, signal, time
from pbos.cli import app, main

def start():
    callback = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
    callback()
    time.sleep(60)

app.start = start
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (130, "pbos: interrupted; nothing was left half-written\n")


SAYS_WHEN_IT_TRAINS = """
import os
from pbos.training import solve as solvers
from pbos.cli import main
check_interrupt = solvers.check_interrupt
def first():
    solvers.check_interrupt = check_interrupt
    os.write(1, b"training\\n")
    check_interrupt()
solvers.check_interrupt = first
main()
"""


def test_interrupt_leaves_no_half_model(tmp_path, shared_data):
    vectors = shared_data / "vectors" / "minilm-en"
    endless = ["--preset", "pbos", "--limit", "2000", "--epochs", str(10**7)]
    command = [sys.executable, "-c", SAYS_WHEN_IT_TRAINS, "train", vectors, "-o", tmp_path / "new", *endless]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"training\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == "pbos: interrupted; nothing was left half-written"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs wait4 to measure memory")
def test_embed_streams_in_constant_memory(tmp_path):
    """Ten times the words, the same memory."""

    def peak(words):
        process = pbos_process("embed", "-o", tmp_path / "out.npy", stdin=subprocess.PIPE)
        for start in range(0, words, 10_000):
            process.stdin.write("".join(f"word{i}\n" for i in range(start, start + 10_000)).encode())
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        process.stderr.close()
        assert process.returncode == 0
        assert np.load(tmp_path / "out.npy", mmap_mode="r").shape == (words, pbos.load().dims)
        return usage.ru_maxrss

    peak(10_000)  # compiles what is not compiled yet
    assert peak(400_000) < 1.1 * peak(40_000) + 8_000


# -- a new user --------------------------------------------------------------------------------------------------------


def test_python_m_pbos():
    command = [sys.executable, "-m", "pbos", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"pbos {pbos.__version__}\n"


def test_a_dash_as_output_is_stdout(run, vectors):
    """As redirected by a shell: nothing is written into a file of this name."""
    Path("words").write_text("high\nhighness\n")
    for command, first in {
        "embed high": "high ",
        "embed high --json": '{"word": "high"',
        "count words": "word\tcount\n",
        f"convert {vectors}": "high ",
        f"complete {vectors} words": "high ",
        "explain high --svg": "<svg",
    }.items():
        ends = [[*command.split(), "-o", "-"], [*command.split(), "-"]]
        code, out, _ = run(*ends[command.startswith(("convert", "explain"))])
        assert code == 0 and out.startswith(first) and not Path("-").exists()


def test_a_file_or_a_model_as_a_word_gets_a_hint(run, model):
    Path("words.txt").write_text("high\n")
    said = "pbos: warning: {0} is taken as a word; to {1}, write {2} {0}\n"
    assert run("segment", "words.txt")[2] == said.format("words.txt", "read words from this file", "-i")
    assert run("segment", "m")[2] == said.format("m", "use the model in this folder", "-m")
    assert run("segment", "high", "highest.txt", "x" * 300)[2] == ""


def test_info_takes_the_model_as_argument(run, model):
    assert run("info", "m") == run("info", "-m", "m")
    assert run("info", "m", "-m", "m")[::2] == (2, "pbos: give the model once: as the argument, or with --model\n")


def test_a_model_as_an_argument_gets_a_hint(run):
    for command in ("serve", "compress -o x"):
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
        what = "these look like word vectors, not pairs of words and their scores; "
        assert err.startswith(
            f"pbos: {name} is not UTF-8 text" if name in ("v.bin", "v.npz") else f"pbos: {name}: {what}"
        )


def test_published_vectors_are_not_downloaded_for_a_model_that_cannot_be_saved(run, model, tmp_path):
    code, out, err = run("get", "glove-6b-100d", "-o", "m")
    assert (code, out) == (2, "")
    assert err == "pbos: m already contains a model; replace it with --force, or choose another folder\n"
