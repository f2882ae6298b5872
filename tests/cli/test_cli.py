"""The command line: exact output, exit codes, streams."""

import io
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys

import numpy as np
import oracle
import pytest

import pbos
from pbos.cli.app import COMMANDS, MEASURES
from pbos.cli.common import BATCH

COUNTS = "word,count\nhigh,60\nhigher,20\ner,20\n"


@pytest.fixture
def counts(tmp_path):
    (tmp_path / "counts.csv").write_text(COUNTS)
    return "counts.csv"


@pytest.fixture
def model(tmp_path):
    words = ["high", "higher", "low", "lower", "slow"]
    pbos.train((words, np.eye(5)), keep_targets=True).save(tmp_path / "m")
    return "m"


# -- segment, explain --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["arguments", "stdin", "dash", "file", "gz"])
def test_words_from_anywhere(run, counts, how, tmp_path):
    import gzip

    (tmp_path / "words.txt").write_text("higher\r\nhig\n")
    (tmp_path / "words.gz").write_bytes(gzip.compress(b"higher\nhig"))
    arguments, stdin = {
        "arguments": (["higher", "hig"], None),
        "stdin": ([], "higher\nhig\n"),
        "dash": (["-i", "-"], "higher\nhig\n"),
        "file": (["-i", "words.txt"], None),
        "gz": (["-i", "words.gz"], None),
    }[how]
    code, out, _ = run("segment", "--counts", counts, *arguments, stdin=stdin)
    assert code == 0
    table = oracle.count({"high": 60, "higher": 20, "er": 20})
    expected = {word: oracle.enumerate_all(word, table, 0.01)[(word,)] for word in ("higher", "hig")}
    assert out == "".join(f"{word}\t{word}\t{p:.3f}\n" for word, p in expected.items())


def test_segment_agrees_with_the_library(run, counts):
    segmenter = pbos.Segmenter.from_counts({"high": 60, "higher": 20, "er": 20})
    _, out, _ = run("segment", "-c", counts, "-n", 3, "highest")
    assert out == "".join(
        f"highest\t{'/'.join(s.pieces)}\t{s.probability:.3f}\n" for s in segmenter.segment("highest", 3)
    )
    _, out, _ = run("segment", "-c", counts, "--json", "highest")
    assert json.loads(out) == {
        "word": "highest",
        "segmentations": [
            {"pieces": list(s.pieces), "probability": s.probability} for s in segmenter.segment("highest")
        ],
    }
    _, out, _ = run("segment", "-c", counts, "--sample", 4, "--seed", 3, "highest")
    assert out == "".join(
        f"highest\t{'/'.join(s.pieces)}\t{s.probability:.3f}\n" for s in segmenter.sample(["highest"], 4, 3)[0]
    )


def test_segment_takes_any_number_of_words(run, counts, tmp_path):
    segmenter = pbos.Segmenter.from_counts({"high": 60, "higher": 20, "er": 20})
    words = ["".join(letters) for letters in itertools.product("higher", repeat=5)] + ["higher"] * 2000
    assert len(words) > BATCH
    (tmp_path / "words.txt").write_text("\n".join(words))
    _, out, _ = run("segment", "-c", counts, "-n", 2, "-i", tmp_path / "words.txt")
    expected = [(word, s) for word in words for s in segmenter.lattice(word).best(2)]
    lines = [f"{word}\t{'/'.join(s.pieces)}\t{s.probability:.3f}" for word, s in expected]
    assert out.splitlines() == lines


def test_segment_settings_of_the_counts_reach_the_library(run, counts):
    settings = {"boundaries": True, "types": True, "min_prob_words": 2, "em_rounds": 3}
    segmenter = pbos.Segmenter.from_counts({"high": 60, "higher": 20, "er": 20}, **settings)
    options = "--boundaries --types --min-prob-words 2 --em-rounds 3 -n 3"
    _, out, _ = run("segment", "-c", counts, *options.split(), "higher")
    assert out == "".join(
        f"higher\t{'/'.join(s.pieces)}\t{s.probability:.3f}\n" for s in segmenter.segment("higher", 3)
    )
    assert out.startswith("higher\thigh/er\t")


def test_samples_do_not_depend_on_batches(run, counts, tmp_path):
    segmenter = pbos.Segmenter.from_counts({"high": 60, "higher": 20, "er": 20})
    words = ["highest", "higher", "high"] * 3334
    assert BATCH < len(words) == 10_002
    (tmp_path / "words.txt").write_text("\n".join(words))
    _, out, _ = run("segment", "-c", counts, "--sample", 2, "--seed", 7, "-i", "words.txt")
    drawn = segmenter.sample(words, 2, 7)
    lines = [f"{word}\t{'/'.join(s.pieces)}" for word, some in zip(words, drawn, strict=True) for s in some]
    assert [line.rpartition("\t")[0] for line in out.splitlines()] == lines
    _, other, _ = run("segment", "-c", counts, "--sample", 2, "-i", "words.txt")
    assert len(other.splitlines()) == len(lines)
    assert other != out


def test_a_saved_segmenter_segments_and_explains(run, tmp_path):
    segmenter = pbos.Segmenter.from_counts({"high": 60, "higher": 20, "er": 20}, boundaries=True)
    segmenter.save(tmp_path / "s")
    _, out, _ = run("segment", "-m", "s", "highest")
    assert out == f"highest\t{'/'.join(segmenter.segment('highest')[0].pieces)}\t{out.split()[-1]}\n"
    _, out, _ = run("explain", "-m", "s", "--json", "highest")
    assert json.loads(out) == segmenter.explain("highest").to_dict()


def test_explain(run, counts):
    table = oracle.count({"high": 60, "higher": 20, "er": 20})
    ways, weights = oracle.enumerate_all("higher", table, 0.01), oracle.weights("higher", table, set(table), 0.01)
    _, out, _ = run("explain", "-c", counts, "-n", 2, "higher")
    head, *lines = out.splitlines()
    assert head == f"higher   coverage 1.00   entropy {oracle.entropy('higher', table, 0.01):.2f}"
    largest = sorted(weights, key=lambda subword: -weights[subword])[:2]
    shares = [ways["higher",], ways["high", "er"], weights[largest[0]], weights[largest[1]]]
    assert [line.split()[:2] for line in lines if "." in line] == [
        [label, f"{share:.3f}"] for label, share in zip(["higher", "high/er", *largest], shares, strict=True)
    ]
    for line, share in zip([line for line in lines if "." in line], shares, strict=True):
        assert len(line.split()[2]) == math.ceil(round(share * 24 * 8) / 8)  # 24 characters are a share of 1
    assert [line for line in lines if "." not in line] == ["  segmentations", "  subword weights"]


def test_explain_is_not_silent_about_unknown_words(run, model):
    _, out, _ = run("explain", "-m", model, "ЖЖ")
    assert "coverage 0.00" in out
    assert "none: no known subword" in out


def test_explain_json_and_svg(run, counts, tmp_path):
    table = oracle.count({"high": 60, "higher": 20, "er": 20})
    weights = oracle.weights("higher", table, set(table), 0.01)
    _, out, _ = run("explain", "-c", counts, "--json", "higher", "--svg", "higher.svg")
    data = json.loads(out)
    assert data.keys() == {"word", "read_as", "spelled", "segmentations", "weights", "spans", "entropy", "coverage"}
    assert {item["subword"]: item["weight"] for item in data["weights"]} == pytest.approx(weights, rel=1e-5)
    assert (tmp_path / "higher.svg").read_text(encoding="utf-8").startswith("<svg")
    assert run("explain", "-c", counts, "high", "er", "--svg", "x.svg")[0] == 2


def test_explain_has_the_neighbors_of_a_model(run, model):
    loaded = pbos.load("m")
    _, out, _ = run("explain", "-m", model, "--json", "--neighbors", 2, "slowly", "low")
    unknown, known = map(json.loads, out.splitlines())
    assert unknown["neighbors"] == [{"word": word, "cosine": c} for word, c in loaded.neighbors("slowly", 2)]
    assert (unknown["known"], known["known"]) == (False, True)
    _, out, _ = run("explain", "-m", model, "--neighbors", 1, "slowly")
    (nearest,) = loaded.neighbors("slowly", 1)
    assert out.endswith(f"  nearest words\n    {nearest[0]}  {nearest[1]:.3f}\n")


# -- embed, neighbors, similarity --------------------------------------------------------------------------------------


def test_embed_text_and_json(run, model):
    loaded = pbos.load("m")
    code, out, err = run("embed", "-m", model, "highest", "lowest")
    assert (code, err) == (0, "")
    rows = [line.split(" ") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["highest", "lowest"]
    assert np.array([row[1:] for row in rows], float) == pytest.approx(loaded.embed(["highest", "lowest"]), abs=1e-5)
    _, out, _ = run("embed", "-m", model, "--json", "highest")
    assert json.loads(out)["vector"] == pytest.approx(loaded["highest"].tolist(), abs=1e-5)


@pytest.fixture
def trusted(confident, tmp_path):
    confident.save(tmp_path / "trusted")
    return "trusted"


def test_embed_with_confidence(run, trusted, confident, small_vectors, tmp_path):
    words = [*small_vectors.words[1500:1520], small_vectors.words[0], "ЖЖ"]
    confidences = [confident.confidence(word) for word in words]
    assert confidences[-2:] == [1, 0] and len(set(confidences)) > 10
    (tmp_path / "words.txt").write_text("\n".join(words), encoding="utf-8")
    plain = run("embed", "-m", trusted, "-i", "words.txt")[1].splitlines()
    lines = run("embed", "-m", trusted, "-i", "words.txt", "--confidence")[1].splitlines()
    for line, without, word, confidence in zip(lines, plain, words, confidences, strict=True):
        assert line == without.replace(word, f"{word} {confidence:.3f}", 1)
    lines = run("embed", "-m", trusted, "-i", "words.txt", "--confidence", "--json")[1].splitlines()
    for line, word, confidence in zip(lines, words, confidences, strict=True):
        found = json.loads(line)
        assert found == {"word": word, "confidence": pytest.approx(confidence, abs=6e-4), "vector": found["vector"]}
    missing = run("embed", "-m", trusted, "--confidence", "--missing", "zeros", stdin="\n")[1]
    assert missing == " 0.000" + " 0" * confident.dims + "\n"


def test_embed_tables_with_confidence(run, trusted, confident, small_vectors, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    words = small_vectors.words[1490:1510]
    confidences = [confident.confidence(word) for word in words]
    (tmp_path / "words.txt").write_text("\n".join(words))
    assert run("embed", "-m", trusted, "-i", "words.txt", "-o", "new.parquet", "--confidence")[0] == 0
    parquet.write_table(pa.table({"word": [*words, None], "n": range(21)}), "words.parquet")
    options = ["--confidence", "--missing", "null"]
    assert run("embed", "-m", trusted, "-i", "words.parquet", "-o", "more.parquet", *options)[0] == 0
    new, more = parquet.read_table("new.parquet"), parquet.read_table("more.parquet")
    assert (new.column_names, more.column_names) == (
        ["word", "vector", "confidence"],
        ["word", "n", "vector", "confidence"],
    )
    assert new["confidence"].to_pylist() == pytest.approx(confidences, abs=1e-5)
    assert more["confidence"].to_pylist()[:-1] == pytest.approx(confidences, abs=1e-5)
    assert more["confidence"].to_pylist()[-1] is None
    assert new["vector"].to_pylist() == more["vector"].to_pylist()[:-1]
    code, _, err = run(
        "embed", "-m", trusted, "-i", "more.parquet", "-o", "x.parquet", "--confidence", "--vector-column", "v"
    )
    assert (code, "already has a column" in err) == (2, True)


def test_confidence_where_there_is_none(run, model, trusted):
    code, out, err = run("embed", "-m", model, "--confidence", "high")
    assert (code, out) == (2, "")
    assert err == "pbos: this model has no confidence; train one with confidence=True and enough words\n"
    code, _, err = run("embed", "-m", trusted, "--confidence", "-o", "x.npy", "high")
    assert code == 2
    assert err == "pbos: --confidence needs a table or .jsonl as output file, or text on stdout\n"
    for name, expected in ((model, "False"), (trusted, "True")):
        assert ["confidence", expected] in [line.split() for line in run("info", "-m", name)[1].splitlines()]
        assert json.loads(run("info", "-m", name, "--json")[1])["confidence"] is (name == trusted)


def test_neighbors_and_explain_show_the_confidence(run, trusted, confident, small_vectors):
    words = [small_vectors.words[0], small_vectors.words[1502]]
    confidences = [confident.confidence(word) for word in words]
    _, out, _ = run("neighbors", "-m", trusted, "-n", 3, *words)
    expected = [(word, *near) for word in words for near in confident.neighbors(word, 3)]
    shown = np.repeat(confidences, 3)
    assert out.splitlines() == [
        f"{word}\t{near}\t{cosine:.3f}\t{trust:.3f}"
        for (word, near, cosine), trust in zip(expected, shown, strict=True)
    ]
    _, out, _ = run("neighbors", "-m", trusted, "--json", *words)
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["confidence"] for one in found] == pytest.approx(confidences, abs=1e-5)
    _, out, _ = run("neighbors", "-m", trusted, "-n", 1, "--positive", words[0])
    assert len(out.split("\t")) == 3  # a sum has no confidence
    _, out, _ = run("explain", "-m", trusted, words[1])
    assert out.splitlines()[0].endswith(f"   confidence {confidences[1]:.2f}")
    _, out, _ = run("explain", "-m", trusted, "--json", words[1])
    assert json.loads(out)["confidence"] == pytest.approx(confidences[1], abs=1e-5)


def test_embed_to_files(run, model, tmp_path):
    words = [f"high{i}low" for i in range(20_000)]  # more than a batch
    (tmp_path / "words.txt").write_text("\n".join(words))
    expected = pbos.load("m").embed(words)
    assert run("embed", "-m", model, "-i", "words.txt", "-o", "out.npy")[0] == 0
    assert np.array_equal(np.load("out.npy"), expected)
    assert run("embed", "-m", model, "-i", "words.txt", "-o", "out.txt.gz")[0] == 0
    vectors = pbos.WordVectors.read("out.txt.gz")
    assert vectors.words == words
    assert np.array_equal(vectors.vectors, expected)


def test_embed_warns_about_zeros(run, model):
    code, out, err = run("embed", "-m", model, "high", "ЖЖ", "Ю")
    assert code == 0
    assert out.splitlines()[1] == "ЖЖ 0 0 0 0 0"
    assert err == "pbos: warning: 2 words have no subword with a vector and got zeros: ЖЖ, Ю\n"


def test_embed_exact(run, model):
    _, out, _ = run("embed", "-m", model, "--exact", "low")
    assert out == "low 0 0 1 0 0\n"


@pytest.mark.parametrize("output", ["out.npy", "out.txt", "out.txt.gz", "out.npz"])
def test_a_failed_embed_leaves_no_file(run, model, tmp_path, output):
    code, _, err = run("embed", "-m", model, "-o", output, "--missing", "error", stdin="high\n\nlow\n")
    assert code == 2
    assert err == "pbos: stdin, line 2: there is no word; leave out --missing error to go on without it\n"
    assert not list(tmp_path.glob("*out*"))


def test_blank_lines_do_not_stop_a_run(run, model, tmp_path):
    (tmp_path / "words.txt").write_bytes(b"high\n\nlow\r\n \t\r\nslow ")
    embed = ["embed", "-m", model, "-i", "words.txt"]
    high, low, slow = pbos.load("m").embed(["high", "low", "slow"])
    code, out, err = run(*embed)
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["high", "low", "slow"])
    assert err == "pbos: warning: 2 missing words were left out (first: words.txt, line 2)\n"
    code, _, err = run(*embed, "-o", "out.npy")  # it has no words, so its rows are those of the lines
    assert (code, err) == (0, "pbos: warning: 2 missing words were given zeros (first: words.txt, line 2)\n")
    assert np.array_equal(np.load("out.npy"), [high, np.zeros(5), low, np.zeros(5), slow])
    assert run(*embed, "-o", "out.npy", "--missing", "skip")[0] == 0
    assert np.array_equal(np.load("out.npy"), [high, low, slow])
    for command in (["segment"], ["neighbors"], ["explain"], ["neighbors", "--among", "words.txt"]):
        code, _, err = run(*command, "-m", model, "-i", "words.txt")
        assert (code, err.count("2 missing words were left out")) == (0, 1 + ("--among" in command))
    code, out, err = run("similarity", "-m", model, stdin="high\tlow\n\nhigh\thigh\n")
    assert (code, len(out.splitlines())) == (0, 2)
    assert err == "pbos: warning: 1 missing word was left out (first: stdin, line 2)\n"
    code, _, err = run("embed", "-m", model, "high", "")
    assert (code, err) == (2, "pbos: argument 2: the word is empty; remove it\n")


def test_bytes_that_are_not_utf8_do_not_stop_a_run(run, model, tmp_path):
    (tmp_path / "words.txt").write_bytes(b"high\nlow\xff\n\xe9\n")
    with pytest.warns(pbos.errors.PbosWarning, match=r"words.txt, line 2: 2 lines are not UTF-8; U\+FFFD replaces"):
        code, out, _ = run("embed", "-m", model, "-i", "words.txt")
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["high", "low\ufffd", "\ufffd"])


def test_a_byte_order_mark_is_not_part_of_the_first_word(run, counts, tmp_path):
    (tmp_path / "words.txt").write_bytes(b"\xef\xbb\xbfhigher\n")
    assert run("segment", "-c", counts, "-i", "words.txt")[1].startswith("higher\thigher\t")


def test_missing_words_of_tables(run, model):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"word": ["high", None]}), "words.parquet")
    embed = ["embed", "-m", model, "-i", "words.parquet", "-o"]
    high = pbos.load("m")["high"].tolist()
    for output in ("out.parquet", "out.npy"):
        code, _, err = run(*embed, output, "--missing", "error")
        assert code == 2
        assert "words.parquet" in err
    for options in ([], ["--missing", "null"]):
        code, _, err = run(*embed, "out.parquet", *options)
        assert (code, err) == (0, "pbos: warning: 1 missing word was given null\n")
        assert parquet.read_table("out.parquet")["vector"].to_pylist() == [high, None]
    assert run(*embed, "out.parquet", "--missing", "zeros")[0] == 0
    assert parquet.read_table("out.parquet")["vector"].to_pylist() == [high, [0.0] * 5]
    code, _, err = run(*embed, "out.npy")
    assert (code, err) == (0, "pbos: warning: 1 missing word was given zeros (first: words.parquet, row 2)\n")
    assert np.load("out.npy").tolist() == [high, [0.0] * 5]
    code, _, err = run(*embed, "parts/")
    assert (code, err) == (0, "pbos: warning: 1 missing word was given null\n")
    assert parquet.read_table("parts")["vector"].to_pylist() == [high, None]


def test_neighbors(run, model):
    loaded = pbos.load("m")
    _, out, _ = run("neighbors", "-m", model, "-n", 2, "highest", "lowest")
    expected = [(asked, *near) for asked in ("highest", "lowest") for near in loaded.neighbors(asked, 2)]
    assert out == "".join(f"{asked}\t{word}\t{cosine:.3f}\n" for asked, word, cosine in expected)
    _, out, _ = run("neighbors", "-m", model, "-n", 1, "--json", stdin="highest\n")
    (nearest,) = loaded.neighbors("highest", 1)
    assert json.loads(out) == {
        "word": "highest",
        "confidence": None,  # this model has none
        "neighbors": [{"word": nearest[0], "cosine": nearest[1]}],
    }
    code, out, err = run("neighbors", "-m", model, "ЖЖ")
    assert (code, out) == (0, "")
    assert "1 word has no subword with a vector" in err


def test_neighbors_of_a_word_that_has_only_its_given_vector(run, tmp_path):
    words = ["high", "higher", "low", "lower", "slow"]
    pbos.train((words, np.eye(5)), keep_targets=True, max_vectors=1).save(tmp_path / "m")
    without = [word for word in words if not pbos.load("m")[word].any()]
    _, _, err = run("neighbors", "-m", "m", *without)
    assert f"{len(without)} words have no subword with a vector" in err
    _, out, err = run("neighbors", "-m", "m", "--exact", "-n", 1, *without)
    assert (len(out.splitlines()), err) == (len(without), "")


@pytest.mark.parametrize(
    "arguments", [["similarity", "high", ""], ["neighbors", "--positive", "high", "--positive", ""]]
)
def test_an_empty_argument(run, arguments):
    code, out, err = run(*arguments)
    assert (code, out, err) == (2, "", "pbos: argument 2: the word is empty; remove it\n")


def test_neighbors_of_sums_among_words_of_ones_own(run, model, tmp_path):
    (tmp_path / "own.txt").write_text("highest\nslower\nlow\n")
    asked = ["--positive", "low", "--positive", "higher", "--negative", "high", "--exact"]
    _, out, err = run("neighbors", "-m", model, "-n", 2, *asked)
    # The given vectors are orthogonal, and the words asked about are left out.
    assert err == ""
    assert sorted(out.splitlines()) == [f"low + higher - high\t{word}\t0.000" for word in ("lower", "slow")]
    _, out, _ = run("neighbors", "-m", model, "--json", "--among", "own.txt", *asked[:-1])
    vectors = [(word, pbos.load("m")[word]) for word in ("low", "higher", "high", "highest", "slower")]
    units = {word: vector / np.linalg.norm(vector) for word, vector in vectors}
    total = units["low"] + units["higher"] - units["high"]
    found = json.loads(out)
    assert (found["positive"], found["negative"]) == (["low", "higher"], ["high"])
    assert {one["word"]: one["cosine"] for one in found["neighbors"]} == pytest.approx(
        {word: units[word] @ total / np.linalg.norm(total) for word in ("highest", "slower")}, abs=1e-5
    )


def test_similarity(run, model):
    loaded = pbos.load("m")
    _, out, _ = run("similarity", "-m", model, "highest", "lowest")
    assert out == f"highest\tlowest\t{loaded.similarity('highest', 'lowest'):.3f}\n"
    _, out, _ = run("similarity", "-m", model, "--json", stdin="high\tlow\t3.5\nhigh\thigher\n")
    assert [json.loads(line)["words"] for line in out.splitlines()] == [["high", "low"], ["high", "higher"]]
    _, out, err = run("similarity", "-m", model, "ЖЖ", "low")
    assert out == "ЖЖ\tlow\t0.000\n"
    assert "warning: 1 word has" in err


# -- train, info, compress, convert ------------------------------------------------------------------------------------


@pytest.fixture
def vectors(tmp_path):
    lines = ["5 3", "high 1 0 0", "higher 1 1 0", "low 0 0 1", "lower 0 1 1", "slow 0 0 0.5"]
    (tmp_path / "v.vec").write_text("\n".join(lines) + "\n")
    return "v.vec"


def test_settings_that_are_a_number_or_a_word(run, vectors):
    options = ("--reliability", "0.2", "--own-share", "fitted", "--lam", "0.5", "--no-confidence")
    assert run("train", vectors, "-o", "new", *options)[0] == 0
    info = pbos.load("new").info
    assert [info[name] for name in ("reliability", "own_share", "lam", "confidence")] == [0.2, "fitted", 0.5, False]
    code, _, err = run("train", vectors, "-o", "other", "--own-share", "2")
    assert code == 2
    assert "own_share must be a number from 0 to 1, or fitted, got 2" in err


def test_train_info_compress(run, vectors, counts):
    code, out, err = run("train", vectors, "-c", counts, "-o", "new", "--heldout", "0.2", "--dtype", "float16")
    assert (code, out) == (0, "")
    assert err.splitlines()[0].startswith("pbos: saved to new: 4 words, ")
    number = r"-?\d\.\d{3}"
    thirds = rf"\(the most frequent third {number}, the rarest {number}\)"
    assert re.search(rf"mean cosine of 1 held-out words: {number} {thirds}", err)
    settings = pbos.load("new").info
    assert (settings["preset"], settings["solver"], settings["lam"]) == ("default", "ridge", "auto")
    assert pbos.load("new").subword_vectors.dtype == "float16"
    training = settings["training"]
    facts = {
        "lam": f"{training['lam']:g}",
        "above the minimum": f"about {training['excess']:.2%} after {training['iterations']} iterations",
        "reliability": "even",
    }
    for name, value in facts.items():
        assert f"pbos: {name}: {value}\n" in err
    code, out, _ = run("info", "-m", "new")
    assert code == 0
    shown = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    assert shown.items() >= {**facts, "words": "4", "preset": "default", "solver": "ridge", "dims": "3"}.items()
    assert not shown.keys() & {"epochs", "lr", "unit_length", "tried", "losses", "iterations", "training"}
    _, out, _ = run("info", "-m", "new", "--json")
    assert json.loads(out) == pbos.load("new").config()
    code, _, err = run(
        "compress", "-m", "new", "-o", "smaller", "--dims", 2, "--dtype", "int8", "--min-vector-words", 2
    )
    assert code == 0
    assert "subword vectors: " in err
    assert pbos.load("smaller").dims == 2


def test_train_by_sgd(run, vectors):
    code, _, err = run("train", vectors, "--preset", "pbos", "-o", "new")
    assert code == 0
    info = pbos.load("new").info
    assert (info["preset"], info["solver"], info["epochs"]) == ("pbos", "sgd", 50)
    losses = info["training"]["losses"]
    loss = f"{losses[0]:.3g}, {losses[-1]:.3g}"
    assert f"pbos: loss, first and last epoch: {loss}\n" in err
    _, out, _ = run("info", "-m", "new")
    shown = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    assert shown.items() >= {"solver": "sgd", "epochs": "50", "loss, first and last epoch": loss}.items()
    assert not shown.keys() & {"lam", "losses", "training"}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("--solver ridge --lam 0.5 --preset pbos", {"solver": "ridge", "lam": 0.5, "preset": "pbos"}),
        ("--lam auto --max-vectors 3", {"lam": "auto", "max_vectors": 3}),
        ("--solver sgd --epochs 3", {"solver": "sgd", "epochs": 3}),
        ("--no-boundaries --lam 2", {"boundaries": False, "lam": 2.0}),
    ],
)
def test_train_solvers_reach_the_library(run, vectors, options, settings):
    assert run("train", vectors, "-o", "new", *options.split())[0] == 0
    loaded, made = pbos.load("new"), pbos.train(vectors, **settings)
    assert loaded.config() == made.config()
    assert np.array_equal(loaded.embed(["highlow", "low"]), made.embed(["highlow", "low"]))


def test_train_options_reach_the_library(run, vectors):
    options = "--preset bos --limit 4 --keep-targets --seed 9 --threads 2 --heldout 0.25"
    assert run("train", vectors, "-o", "new", *options.split())[0] == 0
    made = pbos.train(vectors, preset="bos", limit=4, keep_targets=True, seed=9, heldout=0.25)
    loaded = pbos.load("new")
    assert loaded.config() == made.config()
    assert np.array_equal(loaded.embed(["highlow", "low"], exact=True), made.embed(["highlow", "low"], exact=True))


@pytest.mark.parametrize(
    "settings",
    [
        {
            "normalization": "casefold",
            "boundaries": True,
            "inner_boundaries": False,
            "min_len": 2,
            "max_len": 4,
            "weighting": "uniform",
            "unseen_char_prob": 0.1,
            "start_weight": 2.5,
            "end_weight": 3.0,
            "solver": "ridge",
            "lam": 0.25,
            "max_vectors": 9,
            "merge": False,
        },
        {
            "solver": "sgd",
            "unit_length": True,
            "epochs": 3,
            "lr": 0.5,
            "types": False,
            "round_probs": False,
            "min_prob_words": 1,
            "em_rounds": 1,
            "min_vector_words": 2,
        },
    ],
)
def test_every_setting_reaches_the_library(run, vectors, settings):
    options = []
    for name, value in settings.items():
        option = name.replace("_", "-")
        options += [f"--{'' if value else 'no-'}{option}"] if isinstance(value, bool) else [f"--{option}", value]
    assert run("train", vectors, "-o", "new", *options)[0] == 0
    loaded, made = pbos.load("new"), pbos.train(vectors, **settings)
    assert loaded.config() == made.config()
    assert np.array_equal(loaded.embed(["highlow", "low"]), made.embed(["highlow", "low"]))


def test_a_plan_as_text_and_as_json(run, vectors, tmp_path):
    code, out, err = run("train", vectors, "--plan", "-o", "new")
    assert (code, err) == (0, "")
    facts = dict(line.split(": ") for line in out.splitlines())
    code, out, err = run("train", vectors, "--plan", "--json", "--memory", "2G", "--threads", 2, "-o", "new")
    assert (code, err, out.count("\n")) == (0, "", 1)
    plan = json.loads(out)
    assert facts["words"] == f"{plan['words']} x {plan['dims']}" == "5 x 3"
    assert facts["subwords"] == f"about {plan['subwords']}, {plan['vectors']} vectors"
    assert facts["weights"] == f"about {plan['weights']}"
    assert (plan["memory"], plan["threads"], plan["disk"]) == (2 << 30, 2, 0)
    assert 0 < plan["peak"] < plan["memory"]
    assert run("train", vectors, "--plan", "--json", "-o", "new")[1].count('"memory": null') == 1
    code, _, err = run("train", vectors, "--json", "-o", "new")
    assert (code, err) == (2, "pbos: --json writes the plan; give --plan too, or leave it out\n")
    assert not (tmp_path / "new").exists()


def test_convert(run, vectors):
    code, _, err = run("convert", vectors, "v.bin")
    assert (code, err) == (0, "pbos: wrote v.bin: 5 words x 3\n")
    assert run("convert", "v.bin", "v2.vec.gz", "--limit", 2)[0] == 0
    assert pbos.WordVectors.read("v2.vec.gz").words == ["high", "higher"]
    assert run("convert", "v.bin", "plain", "--format", "glove")[0] == 0
    assert pbos.WordVectors.read("plain").words[4] == "slow"


def test_given_vectors_from_a_file(run, vectors, tmp_path):
    """As with a model that has them."""
    pbos.train(vectors, keep_targets=False).save(tmp_path / "without")
    pbos.train(vectors).save(tmp_path / "with")
    for command in (["embed", "low", "lowest"], ["neighbors", "-n", "2", "low", "lowest"]):
        _, expected, _ = run(*command, "-m", "with", "--exact")
        assert run(*command, "-m", "without", "--vectors", vectors) == (0, expected, "")
    assert run("embed", "-m", "without", "low", "--exact")[0] == 2


# -- complete ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["new.vec", "new.bin", "new.npz", "new.safetensors", "new", "new.vec.gz"])
def test_complete(run, vectors, name):
    code, out, err = run("complete", vectors, "-", "-o", name, stdin="lowest\r\n\nlow \nlowest\nhighlow\nЖ\n")
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "pbos: warning: 1 missing word was left out (first: stdin, line 2)",
        f"pbos: wrote {name}: 5 given words and 2 new ones x 3",
        "pbos: left out 1 of 4 words (no known subword): Ж",
    ]
    table, expected = pbos.WordVectors.read(name), pbos.complete(vectors, ["lowest", "highlow"])
    assert table.words == [*pbos.WordVectors.read(vectors).words, "lowest", "highlow"]
    assert np.array_equal(table.vectors, expected.vectors)


def test_complete_with_the_words_of_a_text(run, vectors, tmp_path):
    text = "Low, lower (lowest)!\n“lowest” low-high — ... low-high lowest rare\n"
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    assert run("complete", vectors, "text.txt", "--text", "--min-count", 2, "-o", "new.vec")[0] == 0
    assert pbos.WordVectors.read("new.vec").words[5:] == ["lowest", "low-high"]  # three times, twice
    code, _, err = run("complete", vectors, "text.txt", "--text", "-o", "x.vec")
    assert (code, err) == (2, "pbos: text.txt: no words found at least 5 times\n")


def test_complete_leaves_out_words_below_a_confidence(run, confident, small_vectors, tmp_path):
    given = pbos.WordVectors(small_vectors.words[:1500], small_vectors.vectors[:1500])
    given.write(tmp_path / "v.npz")
    confident.save(tmp_path / "m")
    new = small_vectors.words[1500:1600]
    sure = [word for word in new if confident.confidence(word) >= 0.9]
    assert 10 < len(sure) < 90
    (tmp_path / "words.txt").write_text("\n".join(new))
    options = ["-m", "m", "--min-confidence", 0.9, "--threads", 1]
    code, _, err = run("complete", "v.npz", "words.txt", "-o", "new.npz", *options)
    assert code == 0
    assert f"left out {100 - len(sure)} of 100 words (no known subword, or confidence below 0.9): " in err
    expected = pbos.complete(given, sure, model=confident)
    assert np.array_equal(pbos.WordVectors.read("new.npz").vectors, expected.vectors)


def test_complete_options_reach_the_library(run, vectors, tmp_path):
    (tmp_path / "words.txt").write_text("lowest\nhi\nhighest\n")
    assert run("complete", vectors, "words.txt", "-o", "new.npz", "--limit", 3)[0] == 0
    expected = pbos.complete(vectors, ["lowest", "hi", "highest"], limit=3)
    assert np.array_equal(pbos.WordVectors.read("new.npz").vectors, expected.vectors)


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
        ("embed --missing skip -o x.parquet x", "--missing skip is for files that are no tables"),
        ("similarity one", "similarity takes two words, or pairs from a file or stdin; got 1 words"),
        ("train nowhere.vec -o m", "no such file or directory: nowhere.vec"),
        ("train v.vec -o counts.csv", "is a file; a pbos model is a folder"),
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


def pbos_process(*arguments, **options):
    command = [sys.executable, "-c", "from pbos.cli import main; main()", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_output_that_the_system_would_not_write_as_utf8_is(model, tmp_path):
    other = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    (tmp_path / "words").write_text("naïve", encoding="utf-8")
    command = ["explain", "-m", tmp_path / model, "-i", tmp_path / "words"]
    process = pbos_process(*command, env={**os.environ, **other})
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert out.decode("utf-8").splitlines() == str(pbos.load(tmp_path / model).explain("naïve")).splitlines()


@pytest.mark.parametrize("how", ["PYTHONIOENCODING", "terminal"])
def test_what_an_encoding_lacks_is_shown_in_ascii(model, tmp_path, how):
    (tmp_path / "words").write_text("naïvЖ", encoding="utf-8")
    command = ["explain", "-m", tmp_path / model, "-i", tmp_path / "words"]
    if how == "terminal":
        pytest.importorskip("pty")
        ours, theirs = os.openpty()
        code = "import sys; sys.stdout.reconfigure(encoding='cp1252'); from pbos.cli import main; main()"
        subprocess.run([sys.executable, "-c", code, *command], stdout=theirs, check=True)
        os.close(theirs)
        out = b""
        while chunk := read_some(ours):
            out += chunk
    else:
        out, _ = pbos_process(*command, env={**os.environ, how: "cp1252"}).communicate(timeout=300)
    expected = re.sub("[█-▏]", "#", str(pbos.load(tmp_path / model).explain("naïvЖ")))
    expected = expected.replace("Ж", "\\u0416").replace("ж", "\\u0436")
    shown = out.decode("cp1252").replace("\x1b[0m", "")  # colorama, which Numba uses, resets colors at exit
    assert shown.splitlines() == expected.splitlines()


def read_some(descriptor):
    """Read from a terminal, whose end is an error on Linux."""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""


@pytest.mark.parametrize("command", ["embed", "neighbors", "segment"])
def test_json_is_json_in_every_encoding(model, tmp_path, command):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = pbos_process(command, "-m", tmp_path / model, "--json", "naïve😀low", env=environment)
    out, _ = process.communicate(timeout=300)
    assert json.loads(out.decode("ascii"))["word"] == "naïve😀low"


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


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    ("arguments", "redirect", "said"),
    [
        (["segment"], "<&-", "stdin is closed; connect it to a file, a pipe or a terminal"),
        (["segment", "high"], ">&-", "stdout is closed; connect it to a file, a pipe or a terminal"),
        (["count", "-o", "counts"], "<&-", "stdin is closed; connect it to a file, a pipe or a terminal"),
        (["--help"], ">full", "no space left on device"),
        (["info"], ">full", "no space left on device"),
        (["segment", "high", "-c", "counts"], "2>&-", ""),
    ],
)
def test_streams_that_are_closed_or_full(tmp_path, arguments, redirect, said):
    (tmp_path / "full").symlink_to("/dev/full")
    (tmp_path / "counts").write_text("high 2\n")
    command = [sys.executable, "-c", "from pbos.cli import main; main()", *arguments]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == (f"pbos: {said}\n" if said else "")
    assert done.returncode == (2 if said else 0)
    assert (tmp_path / "full").is_char_device()


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
    assert (code, err) == (2, "pbos: '' is not the name of a file or folder; give another one\n")
    assert [path.name for path in tmp_path.iterdir()] == ["words"]


@pytest.mark.parametrize(
    "command",
    ["embed high -o -", "count words -o -", "convert words -", "convert - words", "complete words words -o -"],
)
def test_a_dash_is_not_the_name_of_a_file(run, command, tmp_path):
    (tmp_path / "words").write_text("high 1 2\n")
    code, out, err = run(*command.split())
    assert (code, out, err.count("\n")) == (2, "", 1) and "write /dev/stdin, /dev/stdout, or ./-" in err
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
