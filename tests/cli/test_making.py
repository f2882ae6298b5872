"""Commands that make files: train, info, compress, convert, complete."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import pbos

# -- train, info, compress, convert ------------------------------------------------------------------------------------


def test_settings_that_are_a_number_or_a_word(run, vectors):
    options = ("--reliability", "0.2", "--own-share", "fitted", "--lam", "0.5", "--no-confidence")
    assert run("train", vectors, "-o", "new", *options)[0] == 0
    info = pbos.load("new").info
    assert [info[name] for name in ("reliability", "own_share", "lam", "confidence")] == [0.2, "fitted", 0.5, False]
    code, _, err = run("train", vectors, "-o", "other", "--own-share", "2")
    assert code == 2
    assert "own_share must be a number from 0 to 1, or fitted, got 2" in err


def test_train_info_compress(run, vectors, counts):
    options = ["-c", counts, "--heldout", "0.2", "--dtype", "float16", "--verbose"]
    code, out, err = run("train", vectors, "-o", "new", *options)
    assert (code, out) == (0, "")
    size = sum(file.stat().st_size for file in Path("new").iterdir()) / 1e6
    assert err.startswith(f"pbos: saved to new: 4 words x 3 dimensions, {size:,.1f} MB, in ")
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
    code, _, err = run("train", vectors, "--preset", "pbos", "-o", "new", "--verbose")
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


def test_what_training_says_at_the_end(run, small_vectors):
    """How good vectors of other words are, and nothing about tuning unless it is asked for."""
    small_vectors.write("large.vec")
    err = run("train", "large.vec", "-o", "new")[2]
    best = max(pbos.load("new").info["training"]["tried"].values())
    assert f"have an expected cosine of {best:.2f} with the ones" in err
    assert err.count("\n") == 2 and "lam" not in err
    assert "\npbos: lam: " in run("train", "large.vec", "-o", "new", "--force", "--verbose")[2]
    assert "dropped the given vectors, which --exact needs" in run("compress", "-m", "new", "-o", "smaller")[2]
    assert "dropped" not in run("compress", "-m", "new", "-o", "small", "--keep-targets")[2]


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
    assert (code, err) == (2, "pbos: --json prints the plan; use it with --plan\n")
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


def test_complete_with_the_words_of_a_text(run, small_vectors, tmp_path):
    """Those that occur often enough and are not in the table, the most frequent first."""
    given = pbos.WordVectors(small_vectors.words[:1500], small_vectors.vectors[:1500])
    given.write(tmp_path / "v.npz")
    draws = np.random.default_rng(0).integers(1500, size=(1500, 8))
    lines = [" ".join(given.words[at] for at in line) for line in draws]
    lines += ["Lowest, (lowest)! low-high — ... “low-high” lowest rare"]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    code, _, err = run("complete", "v.npz", "--text", "text.txt", "--min-count", 2, "-o", "new.npz")
    assert code == 0, err
    assert [word for word in pbos.WordVectors.read("new.npz").words[1500:]] == ["lowest", "low-high"]
    assert run("complete", "v.npz", "-o", "x.npz")[::2] == (
        2,
        "pbos: there are no words to add; give a file of words, --text, or both\n",
    )


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
