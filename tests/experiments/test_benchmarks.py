"""The benchmark suite: order of timing, ratios, targets, the table, the questions, and the textbook."""

import doctest
import importlib
import json
import random
import sys

import inputs
import measure
import numpy as np
import oracle
import pytest
import run
import textbook
from measure import Row, race

from pbos.settings import PRESETS


def test_a_race_alternates_and_keeps_the_best(monkeypatch):
    now, order = [0.0], []
    monkeypatch.setattr(measure.time, "perf_counter", lambda: now[0])
    seconds = {"ours": iter([3.0, 1.0, 2.0]), "theirs": iter([5.0, 6.0, 4.0])}

    def call(name):
        order.append(name)
        now[0] += next(seconds[name])

    assert race({name: lambda name=name: call(name) for name in seconds}, rounds=3) == {"ours": 1.0, "theirs": 4.0}
    assert order == ["ours", "theirs"] * 3


def test_figures():
    assert doctest.testmod(measure).failed == 0


def test_best_of_five():
    calls = []
    race({"ours": lambda: calls.append(1)})
    assert len(calls) == 5


def test_ratio_says_how_many_times_better_we_are():
    assert Row("time", 2.0, "s", "peer", 6.0).ratio == 3.0
    assert Row("memory", 6.0, "MB", "peer", 2.0).ratio == pytest.approx(1 / 3)
    assert Row("rate", 6.0, "GB/s", "peer", 2.0).ratio == 3.0
    assert Row("alone", 6.0).ratio is None


@pytest.mark.parametrize(
    ("row", "target"),
    [
        (Row("q", 2.0, "s", "peer", 8.0, at_least=4.0), "≥ 4x: met"),
        (Row("q", 2.0, "s", "peer", 7.9, at_least=4.0), "≥ 4x: missed"),
        (Row("q", 0.05, "s", "peer", 1.0, at_most=0.05), "≤ 0.05 s: met"),
        (Row("q", 0.06, "s", at_most=0.05), "≤ 0.05 s: missed"),
        (Row("q", 2.0), ""),
    ],
)
def test_targets(row, target):
    assert row.target == target


def test_the_table():
    quality = {"F1": (69.24, 28.6), "deviation": (1.5e-7, None)}
    row = Row("segment words", 2.0, "µs/word", "peer", 7.0, at_least=2.0, quality=quality)
    expected = (
        "| segment words | 2.00 µs/word | peer 7.00 µs/word | 3.50x | ≥ 2x: met | F1 69.2 / 28.6; deviation 1.5e-07 |"
    )
    assert str(row) == expected
    assert str(Row("alone", 0.25)) == "| alone | 0.250 s |  |  |  |  |"
    assert measure.HEADER.split("\n")[0].count("|") == expected.count("|") == 7


@pytest.mark.parametrize("name", run.QUESTIONS)
def test_questions_say_what_they_measure(name):
    """Peers are imported lazily, so this does not need them."""
    question = importlib.import_module(f"questions.{name.replace('-', '_')}")
    assert question.__doc__
    assert callable(question.rows)


def test_some_words_are_replaced():
    line = " ".join(f"word{number}" for number in range(10_000))
    found = inputs.replace_some(line, ["other"], random.Random(0))
    assert found.endswith("\n")
    kept = [new == old for new, old in zip(found.split(), line.split(), strict=True)]
    assert 400 < kept.count(False) < 600
    assert {new for new, same in zip(found.split(), kept, strict=True) if not same} == {"other"}


def test_the_cost_of_learning_is_that_of_its_steps(tmp_path, monkeypatch):
    learn = importlib.import_module("questions.learn")
    monkeypatch.setattr(inputs, "CACHE", tmp_path)
    chance = random.Random(0)
    lines = (" ".join(f"w{chance.randrange(200)}" for _ in range(20)) for _ in range(500))
    (tmp_path / "text.txt").write_text("\n".join(lines))
    cost = learn.cost("pbos", tmp_path / "text.txt")
    assert list(cost["steps"]) == ["counting", "factoring", "training"]
    for key in ("seconds", "cpu"):
        assert 0 < sum(step[key] for step in cost["steps"].values()) < cost[key] + 0.001
    assert cost["gib"] + 0.001 > max(step["gib"] for step in cost["steps"].values()) > 0.05  # steps are rounded
    assert cost["gb"] > 0
    totals = [row.ours for row in learn.by_step("10k", cost)]
    assert totals == [cost["cpu"], *(step["cpu"] for step in cost["steps"].values())]
    assert [row.ratio for row in learn.compare("10k", cost, "peer", cost)] == [1, 1, 1]


def test_run_prints_and_writes_the_rows(monkeypatch, capsys, tmp_path):
    question = importlib.import_module("questions.starting")
    monkeypatch.setattr(question, "rows", lambda: iter([Row("start", 1.0, "s", "peer", 2.0)]))
    monkeypatch.setattr(sys, "argv", ["run.py", "starting", "--json", str(tmp_path / "rows.json")])
    inputs.source_key()
    run.main()
    out, err = capsys.readouterr()
    assert out.endswith("| start | 1.00 s | peer 2.00 s | 2.00x |  |  |\n")
    assert out.startswith("machine: ")
    assert "command: python benchmarks/run.py starting --json" in out
    assert "starting" in err
    assert inputs.source_key.cache_info().currsize == 0
    content = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["name"], row["ours"], row["ratio"]) for row in content["rows"]] == [("starting", 1.0, 2.0)]


@pytest.mark.parametrize("preset", ["pbos", "default"])
def test_textbook_weights_equal_enumeration(preset):
    """The textbook is the exact reference for our vectors."""
    chosen = PRESETS[preset]
    table = oracle.count({"<higher>": 20, "<high>": 60, "<er>": 20})
    with_vector = {subword for subword in table if subword not in "<>"} - {"igh"}
    word = "<higherx>"
    weighting = {"start": chosen.start_weight, "end": chosen.end_weight}
    found = textbook.weights(word, table, with_vector, both=chosen.weighting == "both", **weighting)
    expected = oracle.span_weights(word, table, with_vector, 0.01, chosen.weighting, **weighting)
    assert found == pytest.approx(expected)
    vectors = {subword: [1.0, float(len(subword))] for subword in with_vector}
    exact = sum(weight * np.array(vectors[subword]) for subword, weight in expected.items())
    assert textbook.compose(found, vectors, 2) == pytest.approx(exact.tolist())
