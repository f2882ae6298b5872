"""The comparison with LOVE: its loss, the typos, what its loader reads, and the tables of scores."""

import json
import math

import numpy as np
import pytest
import torch
from rapidfuzz.distance import OSA

from experiments import love, love_data, love_train, neural, tasks, typos
from pbos.tables.word_vectors import WordVectors

WORDS = ["misspelling", "address", "queen", "banana", "keyboard"]


def test_loss_is_that_of_the_textbook():
    random = np.random.default_rng(0)
    target, produced = random.standard_normal((2, 5, 8))
    rows = [row / math.sqrt(sum(row**2)) for row in (*target, *produced)]
    losses = []
    for one, row in enumerate(rows):
        near = [math.exp(float(row @ other) / 0.07) for other in rows]
        losses.append(-math.log(near[(one + 5) % 10] / (sum(near) - near[one])))
    found = love_train.contrast(torch.from_numpy(target), torch.from_numpy(produced))
    assert float(found) == pytest.approx(sum(losses) / 10)


@pytest.mark.parametrize("kind", typos.KINDS)
def test_typos_are_one_edit_away(kind):
    random = np.random.default_rng(0)
    for word in WORDS * 20:
        wrong = typos.KINDS[kind](word, random)
        assert OSA.distance(word, wrong) == 1 and wrong[0] == word[0]
        assert len(wrong) - len(word) == {"dropped": -1, "doubled": 1}.get(kind, 0)


def test_misspellings_of_people_are_plain_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(typos, "FOLDER", tmp_path)
    (tmp_path / "missp.dat").write_text("$Albert\nAb\n$its\nit's\nits_own\nti\nti\n$o'clock\noclock\n")
    assert list(typos.birkbeck()) == [("ab", "albert"), ("ti", "its")]


def test_misleading_spellings_mean_something_else():
    """Of the words with a ratio above 0.7, the most alike counts as 1 and the least alike as 0."""
    words = ["higher", "highers", "highest", "low"]
    vectors = np.array([[1, 0], [1, 0.1], [-1, 0], [0, 1]], np.float32)
    assert list(love_data.misleading(words, vectors)) == [
        "higher\thighest",
        "highers\thighest",
        "highest\thigher\thighers",
        "low",
    ]


def test_synonyms_share_a_set_of_wordnet(tmp_path):
    for kind in love_data.ENDINGS:
        (tmp_path / f"index.{kind}").write_text("  license\n")
        (tmp_path / f"data.{kind}").write_text("  license\n")
    (tmp_path / "index.noun").write_text("  license\npupil n 2 1 @ 2 1 00000001 00000002  \n")
    entries = ["00000001 18 n 03 pupil 0 student 0 Pupil 0 001", "00000002 08 n 03 pupil 0 school_child 0 secret 0 001"]
    (tmp_path / "data.noun").write_text("  license\n" + "\n".join(entries) + "\n")
    assert list(love_data.synonyms(["pupil", "pupils", "cat"], {"secret"}, tmp_path)) == [
        "pupil\tstudent",
        "pupils\tpupil__student",
    ]


def test_tables_have_a_row_for_each_model(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefgh"))
    words = list(dict.fromkeys("".join(random.choice(letters, 7)) for _ in range(400)))
    table = WordVectors(words, random.standard_normal((len(words), 8)).astype(np.float32))
    split = tasks.hide(table, 40)
    wrong = [(f"{word}x", word) for word in split.kept.words[:30]]
    pairs = [
        (first, second, float(at)) for at, (first, second) in enumerate(zip(words[:40], words[40:80], strict=True))
    ]
    asked = love.Questions(split, {"pairs": pairs}, {"Birkbeck": wrong})
    monkeypatch.setattr(love, "FOLDER", tmp_path)
    monkeypatch.setattr(love, "questions", lambda folder: asked)
    (tmp_path / "made").mkdir()
    for name in ("love", "kvq"):  # as good as the table: they make its vectors
        known = dict(zip(words, table.vectors, strict=True))
        vectors = np.array([known[word.removesuffix("x")] for word in asked.words])
        neural.write_vectors(tmp_path / "made" / f"{name}.npz", asked.words, vectors)
        times = {"seconds": 1, "user": 1, "system": 1, "microseconds per word": 1.0}
        times |= {f"{kind} processor seconds": 1 for kind in ("loader", "main process")}
        (tmp_path / "made" / f"{name}.json").write_text(json.dumps(times))
    (tmp_path / "made" / "love.pt").write_bytes(b"")
    lines = list(love.make(tmp_path))
    rows = [line.split(" | ") for line in lines if line.startswith("| LOVE")]
    assert [row[0] for row in rows] == ["| LOVE"] * 4
    assert rows[0][1].startswith("1.000") and rows[2][1].startswith("1.000") and "100.0 %" in rows[2][1]
    assert rows[1][-1].startswith("1.000")  # the training words of the pairs
    assert sum(line.startswith("| default") for line in lines) == 4
