"""pbos eval: the tasks from the command line."""

import json
import pickle

import numpy as np
import pytest
from scipy.stats import spearmanr

import pbos


@pytest.fixture
def pairs(tmp_path):
    rows = [("high", "tall", 9.0), ("high", "low", 4.0), ("king", "queen", 8.0), ("king", "cabbage", 1.0)]
    (tmp_path / "pairs.tsv").write_text("a\tb\tscore\n" + "".join(f"{a}\t{b}\t{s}\n" for a, b, s in rows))
    return rows


def test_own_pairs_and_own_model(run, pairs):
    code, out, _ = run("eval", "similarity", "pairs.tsv", "--json")
    assert code == 0
    model = pbos.load()
    expected = spearmanr([model.similarity(a, b) for a, b, _ in pairs], [s for *_, s in pairs]).statistic
    result = json.loads(out)
    assert result["dataset"] == "pairs.tsv"
    assert result["scores"]["spearman"]["value"] == pytest.approx(100 * expected)
    _, out, _ = run("eval", "similarity", "pairs.tsv")
    assert out.splitlines()[0] == f"pairs.tsv\tspearman\t{100 * expected:.3f}"


def test_own_vectors_alone(run, pairs, tmp_path):
    pbos.WordVectors(["high", "tall", "low"], np.array([[1, 0], [1, 0.1], [0, 1]])).write(tmp_path / "v.vec")
    code, out, _ = run("eval", "similarity", "--targets", "v.vec", "pairs.tsv", "--json")
    assert code == 0
    assert json.loads(out)["details"]["missing_pairs"] == 2


def test_benchmarks(run, shared_data):
    code, out, _ = run("eval", "similarity", "--data", shared_data, "--json")
    assert code == 0
    found = {item["dataset"]: item["scores"]["spearman"]["value"] for item in map(json.loads, out.splitlines())}
    assert list(found) == ["WS353", "RareWord", "Card-660", "SimLex999"]
    import similarity

    assert found["WS353"] == pytest.approx(similarity.score(pbos.load(), shared_data / "similarity/wordsim353.tab"))
    code, out, _ = run("eval", "multilingual", "de", "--data", shared_data)
    assert code == 0
    assert out.startswith("de WS353\tspearman\t")


def test_table_1_affix_tagging_speed(run, shared_data, tmp_path):
    counts = shared_data / "unigram_freq.csv"
    _, out, _ = run("eval", "segmentation", "-c", counts)
    assert "penpineapplepie\tsegmentations\tpen/pineapple/pie\t0.354\n" in out
    _, out, _ = run("eval", "affix", "-c", counts, "--data", shared_data)
    assert [line.split("\t")[2] for line in out.splitlines()][:3] == ["0.861", "0.874", "0.829"]
    code, out, _ = run("eval", "tagging", "kk", "--data", shared_data, "--json")
    assert code == 0
    assert 0.3 < json.loads(out)["scores"]["accuracy"]["value"] < 1
    (tmp_path / "words.txt").write_text("high\nhigher\n")
    code, out, _ = run("eval", "speed", "words.txt")
    assert code == 0
    assert "µs a word" in out


def test_heldout(run, shared_data):
    code, out, _ = run("eval", "heldout", shared_data / "vectors" / "selftrained-vi", "-n", 100, "--json")
    assert code == 0
    assert json.loads(out)["details"]["hidden"] == 100


def test_data_is_listed(run, shared_data, tmp_path):
    _, out, _ = run("eval", "data", "--data", shared_data, "--json")
    entries = [json.loads(line) for line in out.splitlines()]
    assert all(entry["path"] for entry in entries if entry["name"] in ("WS353", "affix", "ud-kk", "minilm-en"))
    assert all(entry["licence"] for entry in entries)
    assert all(entry["address"].startswith("http") for entry in entries if not entry["name"].startswith("selftrained"))
    (tmp_path / "empty").mkdir()
    _, out, _ = run("eval", "data", "--data", "empty")
    assert "\tmissing\t" in out


def test_a_row_with_the_papers_own_format(run, shared_data, tmp_path):
    """What README shows for Polyglot's pickle, on a small file of that form."""
    given = pbos.WordVectors.read(shared_data / "vectors" / "selftrained-en", limit=500)
    content = (("<UNK>", "<S>", "</S>", "<PAD>", *given.words), np.concatenate([np.zeros((4, 64)), given.vectors]))
    (tmp_path / "polyglot-en.pkl").write_bytes(pickle.dumps(content, protocol=2))
    arguments = "eval reproduce --row similarity-selftrained-en-pbos --vectors polyglot-en.pkl -o originals --cache c"
    code, out, err = run(*arguments.split(), "--data", shared_data)
    assert (code, out) == (0, "")
    assert "wrote originals/README.md" in err
    assert "`similarity-selftrained-en-pbos`" in (tmp_path / "originals" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("eval reproduce nope", "unknown table 'nope'"),
        ("eval reproduce --row nope", "no row is named 'nope'"),
        ("eval similarity bad.tsv", "bad.tsv, line 2"),
        ("eval similarity --data .", "WS353"),
    ],
)
def test_bad_input(run, tmp_path, arguments, sentence, monkeypatch):
    monkeypatch.delenv("PBOS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "bad.tsv").write_text("a\tb\t1\na\tb\n")
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("pbos: ") and sentence in err
    assert err.count("\n") == 1
