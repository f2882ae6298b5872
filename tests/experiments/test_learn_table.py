"""The table of systems that learn from text: tokens, hidden words and scores, compared with plain versions."""

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from experiments import learn
from experiments.learn import Table, Tasks, Text, Vectors

rng = np.random.default_rng(0)


@pytest.fixture
def text(tmp_path, monkeypatch):
    """A text of 60 words, of which the middle ones are hidden."""
    monkeypatch.setattr(learn, "HIDDEN", 8)
    words = [f"w{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(60)]
    weights = 1 / np.arange(1, 61)
    lines = [" ".join(rng.choice(words, 12, p=weights / weights.sum())) + " ." for _ in range(300)]
    with gzip.open(tmp_path / "text.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n".join(lines).upper())
    return Text.make("xx", tmp_path / "text.gz", tmp_path / "made", None)


def random_vectors(words):
    composed, learned = rng.normal(size=(2, len(words), 7)).astype(np.float32)
    return Vectors(list(words), composed, learned, {"seconds": 1.0, "bytes": 10})


def cosine(x, y):
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def test_hidden_words_are_gone_and_nothing_else(text):
    whole, hidden = (path.read_text().split("\n") for path in (text.path("whole"), text.path("hidden")))
    assert len(text.hidden) == 8
    assert text.counts == Counter(token for line in whole for token in line.split())
    for before, after in zip(whole, hidden, strict=True):
        wanted = ["<unk>" if token in text.hidden else token for token in before.split(" ")]
        assert after.split(" ") == wanted
    assert all(20 <= text.counts[word] <= 200 for word in text.hidden)
    assert not set(text.hidden) & set(text.candidates) and "." not in text.candidates


def test_a_text_ends_at_its_limit(tmp_path):
    (tmp_path / "text.txt").write_text("a b c\nd e f\ng h i\n" * 10)
    made = Text.make("xx", tmp_path / "text.txt", tmp_path / "made", 5)
    assert made.path("whole").read_text() == "a b c\nd e f\n"


def test_contexts_fit_as_in_a_plain_version(text):
    tasks = Tasks.__new__(Tasks)
    tasks.text = text
    table = learn.mixed(random_vectors([*text.hidden, *text.candidates]), text.hidden)
    total = sum(text.counts.values())
    lines = [line.split() for line in text.path("whole").read_text().splitlines()]
    sums = {word: np.zeros(7) for word in text.hidden}
    for tokens in lines:
        for at, token in enumerate(tokens):
            for other in range(max(0, at - 5), min(len(tokens), at + 6)):
                if token in sums and other != at and tokens[other] in text.candidates:
                    (vector,) = table.embed([tokens[other]])
                    share = text.counts[tokens[other]] / total
                    sums[token] += vector / np.linalg.norm(vector) * 1e-3 / (1e-3 + share)
    contexts = np.array([one / np.linalg.norm(one) for one in sums.values()])
    composed = np.array([one / np.linalg.norm(one) for one in table.embed(list(sums))])
    contexts, composed = contexts - contexts.mean(axis=0), composed - composed.mean(axis=0)
    ranks = []
    for at, query in enumerate(composed):
        near = [cosine(query, one) for one in contexts]
        ranks.append(sorted(near, reverse=True).index(near[at]) + 1)
    assert tasks.context_ranks(table).value == pytest.approx(100 * np.mean(1 / np.array(ranks)))


def test_neighbors_as_in_a_plain_version(text, monkeypatch):
    monkeypatch.setattr(learn, "NEIGHBORS", 3)
    tasks = Tasks.__new__(Tasks)
    tasks.text = text
    found = random_vectors([*text.hidden, *text.candidates])
    rows = {word: at for at, word in enumerate(found.words)}
    for word, places in zip(text.hidden, tasks.neighbors(learn.mixed(found, text.hidden)), strict=True):
        query = found.composed[rows[word]]
        near = sorted(text.candidates, key=lambda other: -cosine(query, found.learned[rows[other]]))
        assert {text.candidates[at] for at in places} == set(near[:3])


def test_a_system_is_trained_once_and_its_cost_kept(text, tmp_path, monkeypatch):
    calls = []

    def train_apart(system, path, model, threads):
        calls.append((system, path.name, threads))
        Path(model).write_bytes(b"12345")
        return 2.5

    monkeypatch.setattr(learn, "train_apart", train_apart)
    monkeypatch.setattr(learn, "embed", lambda system, model, asked: (np.eye(len(asked)), np.eye(len(asked)) * 2))
    for _ in range(2):
        found = learn.vectors("gensim", text, "hidden", ["b", "a", "b"], tmp_path, 2)
        assert found.words == ["a", "b"] and found.cost == {"seconds": 2.5, "bytes": 5}
        assert found.learned[1].tolist() == [0, 2]
    assert calls == [("gensim", "xx-hidden.txt", 2)]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["made"]  # of the text


def test_scaling_leaves_directions(text):
    table = Table(["a", "b"], np.array([[3, 4], [0, 1]], np.float32)).scaled(["a", "a", "b"])
    assert np.allclose(table.vectors, np.array([[3, 4], [0, 1]]) / np.sqrt(51 / 3))
