"""The tables with published vectors: data, hidden words, intervals, cache. Tiny tables stand for the real ones."""

import json

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from experiments import data, neural, real_data, reproduce, tasks
from experiments.__main__ import main
from experiments.pages import front, write_report
from experiments.reproduce import Runner, code_without_text
from experiments.rows import Row
from experiments.tasks import Cosines, mean_gap
from pbos import Model, WordVectors
from pbos.evaluation.results import Result, Score
from pbos.evaluation.words import difference

DIMS = 6


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A folder of published tables with a tiny GloVe; returns all its words, in order."""
    random = np.random.default_rng(0)
    letters = list("abcdeilnorst")
    words = ["the", "The", "naïve", "3d", "u.s."]
    words += list(dict.fromkeys("".join(random.choice(letters, random.integers(2, 7))) for _ in range(600)))
    folder = tmp_path / "real"
    folder.mkdir()
    WordVectors(words, random.normal(size=(len(words), DIMS))).write(folder / "glove-6b-100d", format="folder")
    source = {"kind": "npm", "place": "tiny@1", "digest": "sha256:" + "0" * 64, "license": "none"}
    source |= {"words": len(words), "dims": DIMS}
    (folder / "glove-6b-100d" / "source.json").write_text(json.dumps(source))
    (folder / "glove-6b-100d" / "counts.tsv.gz").write_text(
        "".join(f"{word}\t{900 - at}\n" for at, word in enumerate(words))
    )
    (folder / "similarity").mkdir()
    (folder / "similarity" / "source.json").write_text(json.dumps({**source, "license": "not stated"}))
    for file in data.PAIRS.values():
        pairs = zip(words[5:55], words[55:105], random.random(50), strict=True)
        (folder / "similarity" / file).write_text("".join(f"{a}\t{b}\t{score:.3f}\n" for a, b, score in pairs))
    monkeypatch.setattr(real_data, "FOLDER", folder)
    monkeypatch.setattr(reproduce, "PUBLISHED", {"glove-6b-100d": 400})
    monkeypatch.setattr("experiments.report.PUBLISHED", {"glove-6b-100d": 400})
    monkeypatch.setattr(data, "ENGLISH", ("MEN", "MTurk-771"))
    return words


@pytest.fixture
def runner(tmp_path, published):
    return Runner(tmp_path / "data", tmp_path / "cache")


def row(table, model, **changes):
    return Row(f"{table}-{model}", table, model, model, **{"targets": "glove-6b-100d", "limit": 400, **changes})


# Data -----------------------------------------------------------------------------------------------------------------


def test_of_glove_only_plain_words_are_used(published, tmp_path):
    found = data.vectors("glove-6b-100d", tmp_path, limit=3)
    assert found.words == ["the", *published[5:7]]
    whole = WordVectors.read(real_data.FOLDER / "glove-6b-100d")
    assert np.array_equal(found.vectors[1], whole.vectors[5])
    assert len(data.vectors("glove-6b-100d", tmp_path)) == len(published) - 4


def test_word_pairs_come_from_the_package_or_the_data_folder(published, shared_data):
    assert data.pairs("MEN", shared_data)[0][:2] == (published[5], published[55])
    assert len(data.pairs("WS353", shared_data)) == 353


def test_what_is_missing_is_said(published, tmp_path):
    with pytest.raises(data.MissingData, match=r"zh-wikipedia does not exist; .* real-data zh-wikipedia. fetches it"):
        data.vectors("zh-wikipedia", tmp_path)


def test_counts_of_hidden_words_are_not_used(runner, published):
    found = runner.counts(row("real-heldout", "default"), "glove-6b-100d", known={"the", published[9]})
    assert dict(found) == {"the": 900, published[9]: 891}
    assert runner.counts(row("real-heldout", "default"), "glove-6b-100d") is None


# Hidden words ---------------------------------------------------------------------------------------------------------


class Guess:
    """An embedder with given vectors, which says how far to trust them."""

    dims = DIMS

    def __init__(self, vectors, trust=None):
        self.vectors = vectors
        if trust is not None:
            self.confidence = lambda words: trust

    def embed(self, words):
        assert len(words) == len(self.vectors)
        return self.vectors


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b))) if a.any() else 0.0


def table(n_words=200):
    random = np.random.default_rng(1)
    return WordVectors([f"w{at}" for at in range(n_words)], random.normal(1, 1, size=(n_words, DIMS)))


def test_hidden_words_are_apart_from_the_others():
    given = table()
    split = tasks.hide(given, 50, dropped={"w3", "w4"})
    assert len(split.hidden) == 50 and len(split.kept) == 148
    assert {*split.hidden.words, *split.kept.words} == {*given.words} - {"w3", "w4"}
    for word, vector, place in zip(split.hidden.words, split.hidden.vectors, split.places, strict=True):
        assert np.array_equal(vector, given[word])
        assert place == int(word[1:]) / 200
    assert [f"w{rank}" for rank in split.ranks] == split.kept.words


def test_cosines_of_frequent_and_rare_words():
    split = tasks.hide(table(400), 200)
    made = split.hidden.vectors + np.random.default_rng(2).normal(size=(200, DIMS)).astype(np.float32)
    made[7] = 0
    found = tasks.hidden_words(Guess(made), split, "tiny", repeats=50).scores
    mean = np.mean([vector for vector in split.kept.vectors], axis=0)
    plain, around = {}, {}
    for word, true, vector in zip(split.hidden.words, split.hidden.vectors, made, strict=True):
        rank = int(word[1:])
        group = "frequent" if rank < 60 else "middle" if rank < 200 else "rare"
        for names in ("", f", {group}"):
            plain.setdefault(names, []).append(cosine(vector, true))
            around.setdefault(names, []).append(cosine(vector - mean, true - mean) if vector.any() else 0)
    assert set(plain) == {"", ", frequent", ", middle", ", rare"}
    for names in plain:
        assert found[f"cosine{names}"].value == pytest.approx(np.mean(plain[names]), abs=1e-5)
        assert found[f"around the mean{names}"].value == pytest.approx(np.mean(around[names]), abs=1e-5)
        assert found[f"cosine{names}"].low < found[f"cosine{names}"].value < found[f"cosine{names}"].high
    assert "confidence" not in found


def test_confidence_is_compared_with_the_true_cosine():
    split = tasks.hide(table(), 100)
    random = np.random.default_rng(3)
    made = split.hidden.vectors + random.normal(size=(100, DIMS)).astype(np.float32)
    true = np.array([cosine(*both) for both in zip(made, split.hidden.vectors, strict=True)])
    exact = tasks.hidden_words(Guess(made, true), split, "tiny", repeats=50)
    assert exact.scores["confidence"].value == pytest.approx(1, abs=1e-3)
    assert exact.scores["largest calibration error"].value == pytest.approx(0, abs=1e-5)
    trust = true + random.normal(0, 0.2, 100)
    found = tasks.hidden_words(Guess(made, trust), split, "tiny", repeats=50)
    assert found.scores["confidence"].value == pytest.approx(spearmanr(trust, true).statistic, abs=1e-3)
    tenth = (rankdata(trust) - 1) // 10
    errors = [abs(trust[tenth == at].mean() - true[tenth == at].mean()) for at in range(10)]
    assert found.scores["calibration error"].value == pytest.approx(np.mean(errors), abs=1e-5)
    assert found.scores["largest calibration error"].value == pytest.approx(max(errors), abs=1e-5)


# Differences ----------------------------------------------------------------------------------------------------------


def scored(seed, noise, n_pairs=80):
    """A result on random pairs; two with the same seed have the same pairs."""
    human = np.random.default_rng(seed).random(n_pairs).round(1)
    near = human + noise * np.random.default_rng([seed, int(10 * noise)]).normal(size=n_pairs)
    return Result("similarity", str(seed), {}, {"cosines": near.tolist(), "human": human.tolist()})


def test_the_mean_gap_is_that_of_scipys_rhos():
    ours, theirs = ([scored(seed, noise) for seed in (1, 2, 3)] for noise in (0.3, 1.0))
    rhos = [
        [100 * spearmanr(one.details["cosines"], one.details["human"]).statistic for one in results]
        for results in (ours, theirs)
    ]
    found = mean_gap(*([Cosines.of(one) for one in results] for results in (ours, theirs)), repeats=300)
    assert found.value == pytest.approx(np.subtract(*rhos).mean())
    assert found.low < found.value < found.high
    single = mean_gap([Cosines.of(ours[0])], [Cosines.of(theirs[0])], repeats=2000)
    known = difference(ours[0], theirs[0], repeats=2000)
    assert single.value == pytest.approx(known.value)
    assert (single.low, single.high) == pytest.approx((known.low, known.high), abs=2.5)
    assert found.high - found.low < 0.8 * (single.high - single.low)  # three sets are better than one


# Rows and cache -------------------------------------------------------------------------------------------------------


def test_rows_with_published_vectors(runner, tmp_path, monkeypatch):
    monkeypatch.setattr(Model, "confidence", lambda self, words: np.full(len(words), 0.25), raising=False)
    monkeypatch.setattr("experiments.reproduce.ELSEWHERE", tmp_path / "elsewhere")
    rows = [row("real-similarity", model, limit=limit) for limit in (200, 400) for model in ("targets", "default")]
    labels = {"targets": "targets alone", "default": "default"}
    rows = [
        Row(f"{one.name}-{one.limit}", one.table, labels[one.model], one.model, one.targets, limit=one.limit)
        for one in rows
    ]
    rows += [
        row("real-heldout", "default", targets="", limit=None),
        row("real-unseen", "default"),
        row("real-unseen", "cnn"),
    ]
    for one in rows[:-1]:
        assert runner.run(one)
    with pytest.raises(data.MissingData, match=r"cnn.npz does not exist"):
        runner.run(rows[-1])
    known = {result.dataset: result.details["pairs"] for result in runner.cached(rows[0])}
    assert known == {"MEN": 50, "MEN, known words": 50, "MTurk-771": 50, "MTurk-771, known words": 50}
    (hidden,) = runner.cached(rows[4])
    assert hidden.details["words"] == 320 and hidden.details["hidden"] == 80
    hidden, men, _ = runner.cached(rows[5])
    assert hidden.details["words"] == 400 - 100 - 80 and men.details["missing_pairs"] == 0

    monkeypatch.setattr("experiments.pages.read_rows", lambda: rows)
    write_report(runner, tmp_path / "results")
    text = (tmp_path / "results" / "published.md").read_text(encoding="utf-8")
    for part in (
        "npm `tiny@1`",
        "| 400 – 200 |",
        "More words of GloVe never hurt",
        "| glove-6b-100d, 400 words | ",
    ):
        assert part in text
    assert "earlier code" not in text
    line = next(line for line in text.splitlines() if line.startswith("| glove-6b-100d |") and "0.25/" in line)
    assert line.count("0.25/") == 10


def test_the_short_page_sums_up():
    """Of results made up here: what is known of words, means over languages, and an ordering that fails."""

    def line(text, start):
        return next(line for line in text.splitlines() if line.startswith(start)).strip("| ").split(" | ")

    found, known = {}, {"targets alone": scored(5, 1.0), "default": scored(5, 0.3)}
    for label, result in known.items():
        result = Result("", "MEN, known words", {"rho": Score(1)}, {**result.details, "pairs": 80})
        found[row("real-similarity", label)] = [Result("", "MEN", {"rho": Score(len(label))}, {}), result]
    for label, values in {"default": (0.7, 0.9), "BoS, with boundaries": (0.6, 0.95), "PBoS": (0.5, 0.6)}.items():
        found[row("tagging", label)] = [
            Result("", name, {"accuracy": Score(value), "unknown": Score(value / 4)})
            for name, value in zip(("eu", "bg"), values, strict=True)
        ]
    text = next(iter(front(found, "Commit: `1`.\n")))
    rho = {label: spearmanr(one.details["cosines"], one.details["human"]).statistic for label, one in known.items()}
    *values, gain = line(text, "| MEN")
    assert values == ["MEN", "13.0", "7.0", "80"]
    assert float(gain.split()[0]) == pytest.approx(100 * (rho["default"] - rho["targets alone"]), abs=0.06)
    assert line(text, "| BoS, with") == ["BoS, with boundaries", "77.5", "19.4", "1"]
    assert line(text, "| default |") == ["default", "80.0", "20.0", "–"]
    assert "ahead of BoS, with boundaries in tagging in nearly all languages: **does not hold here**.\n" in text
    assert "\nCommit: `1`.\n" in text


def test_vectors_made_elsewhere_are_used(runner, tmp_path, monkeypatch):
    """A neural model and KVQ-FH: what another machine made of the words of a job."""
    monkeypatch.setattr(reproduce, "ELSEWHERE", tmp_path)
    neural_row, kvq_row = row("real-unseen", "cnn"), row("similarity", "kvq", limit=200)
    with np.load(runner.neural_job(row("real-unseen", "default"), tmp_path / "neural" / "job.npz")) as job:
        asked, kept = neural.unpack(job["asked"]), neural.unpack(job["words"])
    assert len(kept) == 220 and len(asked) == 180 and not {*kept} & {*asked}
    made = np.random.default_rng(4).normal(size=(len(asked), DIMS))
    (tmp_path / "kvq" / "made").mkdir(parents=True)
    for file in ("neural/cnn.npz", "kvq/made/glove-6b-100d-200.npz"):
        neural.write_vectors(tmp_path / file, asked, made, losses=np.array([2.0, 1.0]))
    hidden = runner.run(neural_row)[0]
    true = data.vectors("glove-6b-100d", tmp_path)[asked[:80]]
    expected = np.mean([cosine(*both) for both in zip(made[:80], true, strict=True)])
    assert hidden.main.value == pytest.approx(expected, abs=1e-3)
    unit = runner.make(kvq_row, None, "glove-6b-100d").embed(asked[:5])
    assert unit == pytest.approx(made[:5] / np.linalg.norm(made[:5], axis=1, keepdims=True), abs=1e-3)
    assert runner.losses(kvq_row) == [2, 1]


def test_results_of_other_code_are_computed_again(runner, monkeypatch):
    one = row("real-unseen", "default")
    first = runner.run(one)
    monkeypatch.setattr(Runner, "real_unseen", lambda self, row: first[:1])
    assert runner.run(one) == first and runner.is_current(one)
    monkeypatch.setattr(reproduce, "code_of", lambda model: "changed")
    assert runner.cached(one) == first and not runner.is_current(one)
    assert runner.run(one) == first[:1] and runner.is_current(one)


def test_only_code_counts(tmp_path):
    texts = {
        "plain": "def f(x):\n    return x + 1\n",
        "same": '"""A file."""\n# comment\ndef f( x ):\n    """A function."""\n    return x+1\n',
        "other": "def f(x):\n    return x + 2\n",
    }
    trees = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        trees[name] = code_without_text(tmp_path / name)
    assert trees["plain"] == trees["same"] != trees["other"]


def test_rows_without_their_table_are_skipped(published, tmp_path, shared_data, capsys):
    arguments = f"reproduce --row real-similarity-navec-targets --data {shared_data}"
    main([*arguments.split(), "--cache", str(tmp_path / "c"), "-o", str(tmp_path / "out")])
    assert "skipped real-similarity-navec-targets: " in capsys.readouterr().err
