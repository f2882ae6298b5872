"""learn(): from text to a model, in Python and on the command line."""

import signal
import subprocess
import sys
from collections import Counter
from functools import partial

import numpy as np
import pytest

import pbos
from pbos.corpus import counting, sources, vectors
from pbos.errors import InputError, PbosWarning
from pbos.training.train import memory_size

STEMS = ["farm", "plough", "harvest", "field", "barn", "sail", "harbor", "anchor", "deck", "voyage"]  # two topics
ENDINGS = ["", "s", "ed", "ing", "er", "ers", "like", "less"]


@pytest.fixture(scope="module")
def text():
    """Lines about one of two topics each; words have a stem of the topic and any ending."""
    random = np.random.default_rng(0)
    lines = []
    for _ in range(6000):
        topic = random.integers(2) * 5
        stems = random.integers(topic, topic + 5, 8)
        lines.append(" ".join(f"{STEMS[stem]}{random.choice(ENDINGS)} the" for stem in stems))
    return [line for line in lines if "harborlike" not in line and "barnless" not in line]


@pytest.fixture
def corpus(text, tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(text) + "\n")
    return "corpus.txt"


def content_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# In Python ------------------------------------------------------------------------------------------------------------


def test_unseen_words_are_near_those_of_their_topic(text):
    model = pbos.learn(text, dims=5)
    assert "harborlike" not in model
    for unseen, (own, other) in {"harborlike": (STEMS[5:], STEMS[:5]), "barnless": (STEMS[:5], STEMS[5:])}.items():
        assert model.similarity(unseen, own).mean() > 0.15 + model.similarity(unseen, other).mean()


def test_it_is_train_on_the_vectors_of_the_co_occurrences(text, tmp_path):
    model = pbos.learn(
        text,
        dims=5,
        keep_targets=True,
        cooccurrences=tmp_path / "pairs",
        vectors=tmp_path / "words.vec",
        counts=tmp_path / "counts.tsv",
    )
    pairs = pbos.Cooccurrences.load(tmp_path / "pairs")
    words, matrix, n_times = vectors.word_vectors(pairs, 5, min_count=2, max_words=500_000)
    assert model.words == words
    assert np.array_equal(model.embed(words, exact=True), matrix)
    table, counts = pbos.WordVectors.read(tmp_path / "words.vec"), pbos.WordCounts.read(tmp_path / "counts.tsv")
    assert table.words == counts.words == words
    np.testing.assert_allclose(table.vectors, matrix, rtol=1e-6)
    assert dict(counts) == Counter(word for line in text for word in line.split())
    assert n_times.tolist() == counts.counts.tolist()
    again = pbos.train(table, counts)
    np.testing.assert_allclose(again.embed(["harborlike"]), model.embed(["harborlike"]), atol=1e-4)
    assert model.info["learning"]["tokens"] == counts.counts.sum()
    from_pairs = pbos.learn(pairs, dims=5)
    assert np.array_equal(from_pairs.embed(["harborlike"]), model.embed(["harborlike"]))


def test_case_tokens_and_counts(text):
    upper = [line.upper() for line in text]
    assert pbos.learn(upper, dims=5).words[0] == "the"
    assert pbos.learn(upper, dims=5, lowercase=False).words[0] == "THE"
    dotted = [line.replace(" ", ". ") for line in text]
    assert "the." in pbos.learn(dotted, dims=5, pretokenized=True)
    assert "the." not in pbos.learn(dotted, dims=5)
    assert "New York" in pbos.learn([["New York", *line.split()] for line in text], dims=5, lowercase=False)
    some = pbos.learn(text, dims=5, min_count=500)
    counts = Counter(word for line in text for word in line.split())
    assert 10 < len(some) < 70
    assert set(some.words) == {word for word, n in counts.items() if n >= 500}
    assert len(pbos.learn(text, dims=5, max_words=7)) == 7


def test_text_is_added(text, tmp_path):
    whole = pbos.learn(text, dims=5, cooccurrences=tmp_path / "whole")
    pbos.learn(text[:1500], dims=5, cooccurrences=tmp_path / "pairs")
    more = [f"{line} submarine" for line in text[1500:]]
    added = pbos.learn(more, dims=5, cooccurrences=tmp_path / "pairs", add=True)
    assert "submarine" in added
    assert added.info["learning"]["tokens"] == whole.info["learning"]["tokens"] + len(more)
    before = content_of(tmp_path / "pairs")
    with pytest.warns(PbosWarning, match=r"skipped \d of \d blocks of text, which were counted before"):
        pbos.learn(more, dims=5, cooccurrences=tmp_path / "pairs", add=True)
    assert content_of(tmp_path / "pairs") == before
    with pytest.raises(InputError, match="was counted with different settings"):
        pbos.learn(["one two"], cooccurrences=tmp_path / "pairs", add=True, window=2)
    with pytest.raises(InputError, match="already exists; use --resume"):
        pbos.learn(text, cooccurrences=tmp_path / "pairs")
    with pytest.raises(InputError, match="has counts of a different text"):
        pbos.learn(text, cooccurrences=tmp_path / "pairs", resume=True)
    with pytest.raises(InputError, match="does not exist, so there is nothing to add"):
        pbos.learn(text, cooccurrences=tmp_path / "other", add=True)
    assert content_of(tmp_path / "pairs") == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "text"}, "a column is for tables"),
        ({"dims": 500}, "500 dimensions need as many words that occur 2 times, but there are only 79"),
    ],
)
def test_bad_options(corpus, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        pbos.learn(tmp_path / corpus, **options)
    assert [path.name for path in tmp_path.iterdir()] == [corpus]


def test_memory_sizes():
    sizes = {1 << 30: 1 << 30, "1048576k": 1 << 30, "2048 MiB": 2 << 30, "0.5G": 1 << 29, "1TB": 1 << 40}
    assert {given: memory_size(given) for given in sizes} == sizes
    for bad in ("", "G", "-1G", "0", "4 GG", None):
        with pytest.raises(InputError, match="memory must be"):
            memory_size(bad)


# Counts alone ---------------------------------------------------------------------------------------------------------


def counts_by_hand(text):
    return Counter(word for line in text for word in line.split())


def test_words_are_counted(text, tmp_path):
    counts = pbos.count(text, tmp_path / "counts.tsv")
    assert dict(counts) == counts_by_hand(text)
    assert counts.counts.tolist() == sorted(counts.counts.tolist(), reverse=True)
    written = [line.split("\t") for line in (tmp_path / "counts.tsv").read_text().splitlines()]
    assert written == [["word", "count"]] + [
        [word, str(n)] for word, n in sorted(counts_by_hand(text).items(), key=lambda one: (-one[1], one[0]))
    ]
    frequent = pbos.count(text, min_count=500)
    assert dict(frequent) == {word: n for word, n in counts_by_hand(text).items() if n >= 500}
    assert "The." in pbos.count(["The. cat"], lowercase=False, pretokenized=True).words
    assert "new york" in pbos.count([["New York", "is"]]).words
    assert [path.name for path in tmp_path.iterdir()] == ["counts.tsv"]
    with pytest.raises(InputError, match="no word of the text occurs 1000000 times"):
        pbos.count(text, min_count=1_000_000)


def test_counts_and_co_occurrences_are_those_of_learn(text, tmp_path):
    """`learn` on the folder makes the model that it makes from the text."""
    pbos.count(text[:2000], cooccurrences=tmp_path / "pairs")
    counts = pbos.count(text[2000:], cooccurrences=tmp_path / "pairs", add=True)
    assert dict(counts) == counts_by_hand(text)
    pbos.learn(text[:2000], dims=5, cooccurrences=tmp_path / "learned")
    model = pbos.learn(text[2000:], dims=5, cooccurrences=tmp_path / "learned", add=True)
    assert content_of(tmp_path / "pairs") == content_of(tmp_path / "learned")
    again = pbos.learn(tmp_path / "pairs", dims=5)
    assert np.array_equal(again.embed(["harborlike"]), model.embed(["harborlike"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "."}, "is a folder, not a file"),
    ],
)
def test_bad_options_of_count(corpus, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        pbos.count(corpus, **options)
    assert [path.name for path in tmp_path.iterdir()] == [corpus]


# On the command line --------------------------------------------------------------------------------------------------


def test_learn_saves_the_model_of_the_library(run, corpus, text, tmp_path):
    code, out, err = run(
        "learn", corpus, "--dims", "5", "-o", "m", "--vectors", "words.npz", "--counts", "counts.tsv.gz"
    )
    assert (code, out) == (0, "")
    assert f"pbos: read {sum(len(line.split()) for line in text):,} words, 79 of them distinct\n" in err
    pbos.learn(tmp_path / corpus, dims=5).save(tmp_path / "expected")
    assert content_of(tmp_path / "m") == content_of(tmp_path / "expected")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(("m", "w", "c"))) == [
        "corpus.txt",
        "counts.tsv.gz",
        "m",
        "words.npz",
    ]
    assert pbos.WordVectors.read(tmp_path / "words.npz").words == pbos.WordCounts.read(tmp_path / "counts.tsv.gz").words
    code, _, _ = run("learn", "--dims", "5", "-o", "m2", stdin="\n".join(text))
    assert code == 0
    assert content_of(tmp_path / "m2") == content_of(tmp_path / "expected")


def test_learn_adds_text(run, corpus, tmp_path):
    (tmp_path / "more.txt").write_text("submarine anchors the harbor\n" * 10)
    arguments = ("--dims", "5", "-o", "m", "--cooccurrences", "pairs")
    assert run("learn", corpus, *arguments)[0] == 0
    assert "submarine" not in pbos.load(tmp_path / "m")
    code, _, err = run("learn", "more.txt", "--force", *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert "already exists; use --resume or --add" in err
    assert run("learn", "more.txt", "--add", *arguments)[0] == 0
    assert "submarine" in pbos.load(tmp_path / "m")
    code, _, err = run("learn", "more.txt", "--add", "-o", "m")
    assert (code, err) == (2, "pbos: --add needs the folder to add to; name it with --cooccurrences\n")


def test_count_and_learn_from_what_was_counted(run, corpus, text, tmp_path):
    code, out, err = run("count", corpus, "-o", "counts.tsv", "--cooccurrences", "pairs")
    total = counts_by_hand(text).total()
    assert (code, out, err) == (0, "", f"pbos: wrote counts.tsv: 79 words, {total:,} times in all\n")
    assert dict(pbos.WordCounts.read(tmp_path / "counts.tsv")) == counts_by_hand(text)
    assert run("count", "-o", "stdin.tsv", stdin="\n".join(text))[0] == 0
    assert (tmp_path / "stdin.tsv").read_bytes() == (tmp_path / "counts.tsv").read_bytes()
    code, _, err = run("learn", "pairs", "--dims", "5", "-o", "m")
    assert code == 0, err
    assert run("learn", corpus, "--dims", "5", "-o", "expected")[0] == 0
    assert content_of(tmp_path / "m") == content_of(tmp_path / "expected")
    code, _, err = run("learn", ".", "-o", "m2")
    assert (code, err.count("\n")) == (2, 1)
    assert "is not a folder of co-occurrences: it has no info.json" in err


KILLED = """
import os, signal, sys
from pbos.corpus import counting, sources
sources.BLOCK, counting.FAN_IN = 20_000, 4
moment, at = sys.argv.pop(1), int(sys.argv.pop(1))
calls = 0
def dying(function):
    def wrapper(*arguments, **options):
        global calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return wrapper
if moment == "block":
    counting.count_shard = dying(counting.count_shard)
elif moment == "merge":
    counting.merge = dying(counting.merge)
elif moment == "array":
    from pbos.corpus import cooccurrences
    cooccurrences.write_header = dying(cooccurrences.write_header)
elif moment == "clear":
    counting.remove = dying(counting.remove)
elif moment == "placed":
    from pbos.jobs import workspace
    workspace.remove = dying(workspace.remove)
elif moment == "place":
    counting.put_in_place = dying(counting.put_in_place)
elif moment == "train":
    from pbos.training import learn as learning
    learning.train = dying(learning.train)
from pbos.cli.app import app
app(sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(
    ("moment", "at"),
    [
        ("block", 1),
        ("block", 9),
        ("array", 3),
        ("array", 50),
        ("merge", 1),
        ("merge", 6),
        ("place", 1),
        ("clear", 1),
        ("clear", 3),
        ("placed", 1),
        ("train", 1),
    ],
)
def test_a_killed_command_goes_on_to_the_same_bytes(corpus, tmp_path, monkeypatch, run, moment, at):
    command = [sys.executable, "-c", KILLED, moment, str(at), "learn", corpus, "--dims", "5", "-o", "m"]
    died = subprocess.run([*command, "--threads", "1"], cwd=tmp_path, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL
    assert not (tmp_path / "m").exists()
    code, _, err = run("learn", corpus, "--dims", "5", "-o", "m")
    assert code == 2
    assert "use --resume" in err
    monkeypatch.setattr(sources, "BLOCK", 20_000)
    monkeypatch.setattr(counting, "FAN_IN", 4)
    code, _, err = run("learn", corpus, "--dims", "5", "-o", "m", "--resume")
    assert code == 0, err
    code, _, err = run("learn", corpus, "--dims", "5", "-o", "whole")
    assert code == 0, err
    assert content_of(tmp_path / "m") == content_of(tmp_path / "whole")
    assert [path.name for path in tmp_path.iterdir() if "cooccurrences" in path.name] == []


@pytest.mark.parametrize("call", [pbos.learn, pbos.count])
def test_what_another_version_has_counted_is_not_mixed_in(call, text, tmp_path, monkeypatch):
    """It may cut text into other words."""
    monkeypatch.setattr(sources, "BLOCK", 20_000)
    call = partial(call, text, cooccurrences=tmp_path / "pairs", threads=1)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(counting, "merge", lambda *_, **__: 1 / 0)
        call()
    before = content_of(tmp_path / "pairs.parts" / "000000-000000")
    monkeypatch.setattr(counting, "__version__", "9.9")
    with pytest.raises(
        InputError, match=r"pairs.parts has parts of another job; finish that one, or delete the folder"
    ):
        call(resume=True)
    assert content_of(tmp_path / "pairs.parts" / "000000-000000") == before
    assert not (tmp_path / "pairs").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(("moment", "at"), [("block", 9), ("merge", 2), ("place", 1)])
def test_counting_words_goes_on_where_it_was_killed(corpus, tmp_path, monkeypatch, run, moment, at):
    command = [sys.executable, "-c", KILLED, moment, str(at), "count", corpus, "-o", "counts.tsv", "--threads", "1"]
    died = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL
    monkeypatch.setattr(sources, "BLOCK", 20_000)
    code, _, err = run("count", corpus, "-o", "counts.tsv")
    assert (code, "to continue it, use --resume" in err) == (2, True)
    assert run("count", corpus, "-o", "counts.tsv", "--resume")[0] == 0
    assert run("count", corpus, "-o", "whole.tsv")[0] == 0
    assert (tmp_path / "counts.tsv").read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [corpus, "counts.tsv", "whole.tsv"]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(("moment", "at"), [("merge", 1), ("place", 1), ("placed", 1), ("train", 1)])
@pytest.mark.filterwarnings("ignore:skipped")
def test_text_is_added_once_if_the_command_is_killed(corpus, tmp_path, monkeypatch, run, moment, at):
    (tmp_path / "more.txt").write_text((tmp_path / corpus).read_text().replace("the", "a"))
    monkeypatch.setattr(sources, "BLOCK", 20_000)
    options = ("--dims", "5", "-o", "m", "--cooccurrences")
    for folder in ("pairs", "whole"):
        assert run("learn", corpus, "--force", *options, folder)[0] == 0
    command = [sys.executable, "-c", KILLED, moment, str(at), "learn", "more.txt", "--add", *options, "pairs"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == -signal.SIGKILL
    code, _, err = run("learn", "more.txt", "--add", "--resume", *options, "pairs")
    assert code == 0, err
    added = content_of(tmp_path / "m")
    assert run("learn", "more.txt", "--add", *options, "whole")[0] == 0
    assert content_of(tmp_path / "pairs") == content_of(tmp_path / "whole")
    assert content_of(tmp_path / "m") == added
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith((".parts", ".tmp"))] == []
