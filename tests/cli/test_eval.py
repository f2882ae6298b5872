"""pbos eval: the tasks from the command line."""

import json

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


def test_named_sets(run, shared_data):
    code, out, _ = run("eval", "similarity", "ws353-DE", "SimLex999-de", "--data", shared_data)
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()][::2] == ["WS353-de", "SimLex999-de"]


def test_affix_and_tagging(run, shared_data):
    counts = shared_data / "unigram_freq.csv"
    _, out, _ = run("eval", "affix", "-c", counts, "--data", shared_data)
    assert [line.split("\t")[2] for line in out.splitlines()] == ["0.861", "0.874", "0.829"]
    code, out, _ = run("eval", "tagging", "kk", "--data", shared_data, "--json")
    assert code == 0
    assert 0.3 < json.loads(out)["scores"]["accuracy"]["value"] < 1


def test_heldout(run, small_vectors, tmp_path):
    small_vectors.write(tmp_path / "vectors.bin")
    code, out, _ = run("eval", "heldout", tmp_path / "vectors.bin", "-n", 100, "--json")
    assert code == 0
    assert json.loads(out)["details"]["hidden"] == 100


def test_data_is_listed(run, shared_data, tmp_path):
    _, out, _ = run("eval", "data", "--data", shared_data, "--json")
    entries = [json.loads(line) for line in out.splitlines()]
    assert all(entry["license"] and entry["page"].startswith("http") for entry in entries)
    assert all(entry["path"] for entry in entries if entry["name"] != "morphemes")
    (tmp_path / "empty").mkdir()
    _, out, _ = run("eval", "data", "--data", "empty")
    assert "\tmissing\t" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("eval similarity nowhere.tsv", "no such file or directory: nowhere.tsv"),
        ("eval similarity affix", "affix is not a similarity data set"),
        ("eval similarity bad.tsv", "bad.tsv, line 2"),
        ("eval tagging en", "ud-en is missing"),
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
