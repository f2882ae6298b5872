"""Commands about words: segment, explain, embed, neighbors, similarity; exact output."""

import itertools
import json
import math

import numpy as np
import oracle
import pytest

import pbos
from pbos.cli.common import BATCH

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


def test_explain_with_contexts(run, contextual, sentences, small_vectors, tmp_path):
    contextual.save(tmp_path / "m")
    word = small_vectors.words[1503]  # not a training word
    some = [line for line in sentences if word in line.split()][:2]
    contexts = ["--context", some[0], "--context", some[1]]
    code, out, _ = run("explain", "-m", "m", word, *contexts, "--json")
    explained = json.loads(out)
    assert code == 0 and explained["confidence"] == pytest.approx(contextual.confidence(word, contexts=some), abs=1e-5)
    _, out, _ = run("explain", "-m", "m", word, *contexts, "--neighbors", 2)
    share, near = explained["context_share"], explained["neighbors"]
    rows = [line.split()[:2] for line in out.splitlines()]
    assert ["spelling", f"{1 - share:.3f}"] in rows and ["contexts", f"{share:.3f}"] in rows
    assert [*explained["context_words"][0].values()] == [rows[-8][0], pytest.approx(float(rows[-8][1]), abs=5e-4)]
    assert rows[-2:] == [[one["word"], f"{one['cosine']:.3f}"] for one in near[:2]]


def test_contexts_that_explain_refuses(run, counts, trusted, contextual, tmp_path):
    contextual.save(tmp_path / "m")
    for arguments, message in [
        (["-m", "m", "high", "low"], "--context is about one word; give a single one"),
        (["-m", "m"], "--context is about one word; give a single one"),
        (["-c", counts, "high"], "--context needs a model, which has vectors; leave it out"),
        (["-m", trusted, "high"], "this model cannot use contexts; train one with a text"),
        (["-m", "m", "low"], "'low' does not occur in its context 'high'"),
    ]:
        code, out, err = run("explain", *arguments, "--context", "high", stdin="high\n")
        assert (code, out, err.count("\n")) == (2, "", 1) and message in err


def test_explain_is_not_silent_about_unknown_words(run, model):
    _, out, _ = run("explain", "-m", "m", "ЖЖ")
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
    _, out, _ = run("explain", "-m", "m", "--json", "--neighbors", 2, "slowly", "low")
    unknown, known = map(json.loads, out.splitlines())
    assert unknown["neighbors"] == [{"word": word, "cosine": c} for word, c in loaded.neighbors("slowly", 2)]
    assert (unknown["known"], known["known"]) == (False, True)
    _, out, _ = run("explain", "-m", "m", "--neighbors", 1, "slowly")
    (nearest,) = loaded.neighbors("slowly", 1)
    assert out.endswith(f"  nearest words\n    {nearest[0]}  {nearest[1]:.3f}\n")


# -- embed, neighbors, similarity --------------------------------------------------------------------------------------


def test_embed_text_and_json(run, model):
    loaded = pbos.load("m")
    code, out, err = run("embed", "-m", "m", "highest", "lowest")
    assert (code, err) == (0, "")
    rows = [line.split(" ") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["highest", "lowest"]
    assert np.array([row[1:] for row in rows], float) == pytest.approx(loaded.embed(["highest", "lowest"]), abs=1e-5)
    _, out, _ = run("embed", "-m", "m", "--json", "highest")
    assert json.loads(out)["vector"] == pytest.approx(loaded["highest"].tolist(), abs=1e-5)


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
    code, out, err = run("embed", "-m", "m", "--confidence", "high")
    assert (code, out) == (2, "")
    assert err == "pbos: this model has no confidence; train one with confidence=True and enough words\n"
    code, _, err = run("embed", "-m", trusted, "--confidence", "-o", "x.npy", "high")
    assert code == 2
    assert err == "pbos: --confidence needs a table or .jsonl as output file, or text on stdout\n"
    for name, expected in (("m", "no"), (trusted, "yes")):
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
    assert run("embed", "-m", "m", "-i", "words.txt", "-o", "out.npy")[0] == 0
    assert np.array_equal(np.load("out.npy"), expected)
    assert run("embed", "-m", "m", "-i", "words.txt", "-o", "out.txt.gz")[0] == 0
    vectors = pbos.WordVectors.read("out.txt.gz")
    assert vectors.words == words
    assert np.array_equal(vectors.vectors, expected)


def test_embed_warns_about_zeros(run, model):
    code, out, err = run("embed", "-m", "m", "high", "ЖЖ", "Ю")
    assert code == 0
    assert out.splitlines()[1] == "ЖЖ 0 0 0 0 0"
    assert err == "pbos: warning: 2 words have no subword with a vector and got zeros: ЖЖ, Ю\n"


def test_embed_exact(run, model):
    _, out, _ = run("embed", "-m", "m", "--exact", "low")
    assert out == "low 0 0 1 0 0\n"


@pytest.mark.parametrize("output", ["out.npy", "out.txt", "out.txt.gz", "out.npz"])
def test_a_failed_embed_leaves_no_file(run, model, tmp_path, output):
    code, _, err = run("embed", "-m", "m", "-o", output, "--missing", "error", stdin="high\n\nlow\n")
    assert code == 2
    assert err == "pbos: stdin, line 2: no word here; leave out --missing error to skip it\n"
    assert not list(tmp_path.glob("*out*"))


def test_blank_lines_do_not_stop_a_run(run, model, tmp_path):
    (tmp_path / "words.txt").write_bytes(b"high\n\nlow\r\n \t\r\nslow ")
    embed = ["embed", "-m", "m", "-i", "words.txt"]
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
        code, _, err = run(*command, "-m", "m", "-i", "words.txt")
        assert (code, err.count("2 missing words were left out")) == (0, 1 + ("--among" in command))
    code, out, err = run("similarity", "-m", "m", stdin="high\tlow\n\nhigh\thigh\n")
    assert (code, len(out.splitlines())) == (0, 2)
    assert err == "pbos: warning: 1 missing word was left out (first: stdin, line 2)\n"
    code, _, err = run("embed", "-m", "m", "high", "")
    assert (code, err) == (2, "pbos: argument 2: the word is empty; remove it\n")


def test_bytes_that_are_not_utf8_do_not_stop_a_run(run, model, tmp_path):
    (tmp_path / "words.txt").write_bytes(b"high\nlow\xff\n\xe9\n")
    with pytest.warns(pbos.errors.PbosWarning, match=r"words.txt, line 2: 2 lines are not UTF-8; bad bytes"):
        code, out, _ = run("embed", "-m", "m", "-i", "words.txt")
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["high", "low\ufffd", "\ufffd"])


def test_a_byte_order_mark_is_not_part_of_the_first_word(run, counts, tmp_path):
    (tmp_path / "words.txt").write_bytes(b"\xef\xbb\xbfhigher\n")
    assert run("segment", "-c", counts, "-i", "words.txt")[1].startswith("higher\thigher\t")


def test_missing_words_of_tables(run, model):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"word": ["high", None]}), "words.parquet")
    embed = ["embed", "-m", "m", "-i", "words.parquet", "-o"]
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
    _, out, _ = run("neighbors", "-m", "m", "-n", 2, "highest", "lowest")
    expected = [(asked, *near) for asked in ("highest", "lowest") for near in loaded.neighbors(asked, 2)]
    assert out == "".join(f"{asked}\t{word}\t{cosine:.3f}\n" for asked, word, cosine in expected)
    _, out, _ = run("neighbors", "-m", "m", "-n", 1, "--json", stdin="highest\n")
    (nearest,) = loaded.neighbors("highest", 1)
    assert json.loads(out) == {
        "word": "highest",
        "confidence": None,  # this model has none
        "neighbors": [{"word": nearest[0], "cosine": nearest[1]}],
    }
    code, out, err = run("neighbors", "-m", "m", "ЖЖ")
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
    _, out, err = run("neighbors", "-m", "m", "-n", 2, *asked)
    # The given vectors are orthogonal, and the words asked about are left out.
    assert err == ""
    assert sorted(out.splitlines()) == [f"low + higher - high\t{word}\t0.000" for word in ("lower", "slow")]
    _, out, _ = run("neighbors", "-m", "m", "--json", "--among", "own.txt", *asked[:-1])
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
    _, out, _ = run("similarity", "-m", "m", "highest", "lowest")
    assert out == f"highest\tlowest\t{loaded.similarity('highest', 'lowest'):.3f}\n"
    _, out, _ = run("similarity", "-m", "m", "--json", stdin="high\tlow\t3.5\nhigh\thigher\n")
    assert [json.loads(line)["words"] for line in out.splitlines()] == [["high", "low"], ["high", "higher"]]
    _, out, err = run("similarity", "-m", "m", "ЖЖ", "low")
    assert out == "ЖЖ\tlow\t0.000\n"
    assert "warning: 1 word has" in err
