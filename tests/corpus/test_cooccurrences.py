"""Co-occurrences against a textbook version: how they add up, and counting that goes on where it was interrupted."""

import dataclasses
import json
import os
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from texts import PLAIN, as_dictionaries, content_of, count, generated_text, run_by_hand

from pbos.corpus import Cooccurrences, counting, sources
from pbos.corpus.cooccurrences import Counting, merge
from pbos.errors import FormatError, InputError
from pbos.files.atomic import lock
from pbos.jobs.pools import Threads
from pbos.kernels import text as kernels

pytestmark = pytest.mark.core


@pytest.mark.parametrize("window", [1, 2, 5])
def test_pairs_are_counted_as_defined(tmp_path, window):
    text = generated_text(300)
    found = count(text.split("\n"), tmp_path, Counting(window=window, thin=1e9))
    assert as_dictionaries(found) == run_by_hand(text, window)
    assert found.words == sorted(found.words)
    assert all((np.diff(found.indices[a:b]) > 0).all() for a, b in zip(found.indptr, found.indptr[1:], strict=False))


def test_frequent_words_are_subsampled():
    """The share of tokens that stay is sqrt(x) + x, in expectation; then a window reaches over the gaps."""
    n = 400_000
    text = " ".join(np.random.default_rng(0).choice(["often", "seldom"], n, p=[0.99, 0.01]))
    found = Cooccurrences.of_block(text, Counting(window=1, thin=1e-3), [])
    counts, contexts = as_dictionaries(found)
    shares = {
        word: 1e-3 * 1_000_000 / count for word, count in counts.items()
    }  # a short text counts as a million words
    kept = {word: min(1, np.sqrt(x) + x) * counts[word] for word, x in shares.items()}
    expected = 2 * kept["often"] * kept["seldom"] / sum(kept.values())  # neighbors on both sides, drawn independently
    assert contexts["near", "often", "seldom"] == pytest.approx(expected, rel=0.1)
    assert contexts["near", "often", "seldom"] == contexts["near", "seldom", "often"]
    whole = run_by_hand(text)[1]  # words before and after are those of the whole text
    assert {key: value for key, value in contexts.items() if key[0] != "near"} == {
        key: value for key, value in whole.items() if key[0] != "near"
    }


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_runs_and_threads_do_not_matter(tmp_path, monkeypatch, threads):
    text = generated_text(2000)
    whole = count(text.split("\n"), tmp_path / "whole")
    monkeypatch.setattr(sources, "BLOCK", 700)  # about 100 blocks
    monkeypatch.setattr(counting, "FAN_IN", 3)
    monkeypatch.setattr("pbos.corpus.cooccurrences.ENTRIES", 50)
    (tmp_path / "text.txt").write_text(text)
    parts = count(tmp_path / "text.txt", tmp_path / "parts", threads=threads)
    assert len(parts.blocks) > 50
    for name in ("counts", "indptr", "indices", "data"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist()
    assert parts.words == whole.words
    assert not (tmp_path / "parts" / "target.parts").exists()


def test_adding_up(tmp_path):
    texts = [generated_text(100, seed) for seed in range(4)]
    for at, text in enumerate(texts):
        count(text.split("\n"), tmp_path / str(at))
    parts = [Cooccurrences.load(tmp_path / str(at) / "target") for at in range(4)]
    merge(parts, tmp_path / "sum")
    assert as_dictionaries(Cooccurrences.load(tmp_path / "sum")) == run_by_hand("\n".join(texts))
    other = count(["one two"], tmp_path / "other", Counting(window=2))
    with pytest.raises(InputError, match="different settings"):
        merge([parts[0], other], tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()


def test_what_was_loaded_stays_if_its_folder_is_replaced(tmp_path):
    texts = [generated_text(100, seed) for seed in range(2)]
    for at, text in enumerate(texts):
        count(text.split("\n"), tmp_path / str(at))
    before = Cooccurrences.load(tmp_path / "0" / "target")
    merge([before, Cooccurrences.load(tmp_path / "1" / "target")], tmp_path / "0" / "target")
    assert as_dictionaries(before) == run_by_hand(texts[0])
    rows = before.rows(slice(0, len(before)))
    assert [values.tolist() for values in rows] == [
        getattr(before, name).tolist() for name in ("indptr", "indices", "data")
    ]


def test_words_beyond_what_a_column_can_number(tmp_path, monkeypatch):
    monkeypatch.setattr("pbos.corpus.cooccurrences.MOST_COLUMNS", 8)
    with pytest.raises(InputError, match="3 distinct words are too many"):
        count(["one two three"], tmp_path)


def test_words_that_are_not_sorted(tmp_path):
    """Damage that the sizes of files do not show; nothing beyond an array is read."""
    for at in range(2):
        count([f"one two three word{at}"], tmp_path / str(at))
    words = tmp_path / "1" / "target" / "words.txt"
    words.write_text("".join(f"{word}\n" for word in ("two", "three", "one", "word1")))
    parts = [Cooccurrences.load(tmp_path / str(at) / "target") for at in range(2)]
    with pytest.raises(FormatError, match="not sorted"):
        merge(parts, tmp_path / "sum")


@pytest.mark.parametrize("seed", range(3))
def test_lists_of_words_are_joined_as_sets(seed):
    """Prefixes, control characters, and letters of one to four bytes, against Python's sets of strings."""
    random = np.random.default_rng(seed)
    letters = list("ab\t\x01é中\U0001d400")
    sets = [{"".join(random.choice(letters, random.integers(1, 4))) for _ in range(200)} for _ in range(2)]
    first, second = (coded(words) for words in sets)
    union = sorted(sets[0] | sets[1])
    assert kernels.join_lists(first, second).tobytes() == coded(union).tobytes()
    places = kernels.find_places(second, len(sets[1]), coded(union))
    assert places.tolist() == [union.index(word) for word in sorted(sets[1])]
    for both in (first, coded([])), (coded([]), first):
        assert kernels.join_lists(*both).tobytes() == first.tobytes()


def coded(words):
    return np.frombuffer(bytearray("".join(f"{word}\n" for word in sorted(words)), "utf-8"), np.uint8)


def test_large_counts_stay_at_the_largest_number(tmp_path):
    one = Cooccurrences.of_block("a b", PLAIN, [])
    large = dataclasses.replace(one, data=np.full(4, 2**32 - 2, np.uint32))
    merge([large, one], tmp_path / "sum")
    assert Cooccurrences.load(tmp_path / "sum").data.tolist() == [2**32 - 1] * 4


def test_scipy_reads_the_folder(tmp_path):
    text = generated_text(50)
    count(text.split("\n"), tmp_path)
    words = (tmp_path / "target" / "words.txt").read_text().split("\n")[:-1]
    arrays = [np.load(tmp_path / "target" / f"{name}.npy") for name in ("data", "indices", "indptr")]
    near, before, after = np.split(
        sp.csr_matrix(tuple(arrays), shape=(len(words), 3 * len(words))).toarray(), 3, axis=1
    )
    assert np.array_equal(near, near.T)
    assert np.array_equal(before, after.T)
    first, second = words.index("wca"), words.index("wga")
    contexts = run_by_hand(text)[1]
    assert near[first, second] == contexts["near", "wca", "wga"]
    assert before[first, second] == contexts.get(("before", "wca", "wga"), 0)


@pytest.mark.parametrize("damage", ["missing", "short", "other", "json", "mixed"])
def test_damaged_folders(tmp_path, damage):
    count(["one two three"], tmp_path)
    folder = tmp_path / "target"
    if damage == "missing":
        (folder / "data.npy").unlink()
    elif damage == "short":
        content = (folder / "data.npy").read_bytes()
        (folder / "data.npy").write_bytes(content[:-4])
    elif damage == "other":
        (folder / "info.json").write_text(json.dumps({"format": "other"}))
    elif damage == "json":
        (folder / "info.json").write_text("{")
    else:
        (folder / "words.txt").write_text("one\n")
    with pytest.raises(FormatError):
        Cooccurrences.load(folder)


# Interruptions --------------------------------------------------------------------------------------------------------


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """A text of several shards, in a file."""
    (tmp_path / "text.txt").write_text(generated_text(400))
    monkeypatch.setattr(sources, "BLOCK", 900)
    return tmp_path / "text.txt"


def count_some(text, folder, numbers=None):
    """Count some shards of a text in a call that is interrupted before it merges them; return the folder of runs."""

    def count_shard(job, *others, **options):
        return original(job, *others, **options) if numbers is None or job.number in numbers else (0, 0)

    def interrupted(*_):
        raise KeyboardInterrupt

    original = counting.count_shard
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(counting, "count_shard", count_shard)
        patch.setattr(counting, "merge_many", interrupted)
        count(text, folder)
    return folder / "target.parts"


@pytest.mark.parametrize("after", [0, 1, 4, 9, 10, 11])
def test_counting_goes_on_where_it_stopped(tmp_path, monkeypatch, shards, after):
    """The call is interrupted after some blocks, at a merge as well; then the rest is counted, and nothing twice."""
    monkeypatch.setattr(counting, "FAN_IN", 4)
    whole = count(shards, tmp_path / "whole")
    counted = []
    original = counting.count_shard

    def interrupted(job, *others, **options):
        if len(counted) == after:
            raise KeyboardInterrupt
        counted.append(job.number)
        return original(job, *others, **options)

    monkeypatch.setattr(counting, "count_shard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        count(shards, tmp_path / "again", threads=1)

    def counted_on(job, *others, **options):
        counted.append(job.number)
        return original(job, *others, **options)

    monkeypatch.setattr(counting, "count_shard", counted_on)
    written = ".000011-000011.0123456789ab.tmp"  # of a run that was being written
    (tmp_path / "again" / "target.parts" / written).mkdir()
    again = count(shards, tmp_path / "again", threads=1)
    assert sorted(counted) == list(range(len(whole.blocks)))
    assert content_of(tmp_path / "again" / "target") == content_of(tmp_path / "whole" / "target")
    assert again.words == whole.words
    assert [path.name for path in (tmp_path / "again").iterdir()] == ["target"]


def test_a_folder_of_runs_that_cannot_be_listed_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, lambda path: (_ for _ in ()).throw(PermissionError(13, "no", str(path))))
    with pytest.raises(PermissionError):
        counting.earlier_runs(tmp_path, [], set())


def test_a_merge_that_was_interrupted_before_its_parts_were_removed(tmp_path, shards):
    count(shards, tmp_path / "whole")
    parts = count_some(shards, tmp_path / "again")
    runs = [Cooccurrences.load(parts / f"{number:06}-{number:06}") for number in range(3)]
    merge(runs, parts / "000000-000002")
    count(shards, tmp_path / "again")
    assert content_of(tmp_path / "again" / "target") == content_of(tmp_path / "whole" / "target")


def test_runs_of_another_text_or_other_settings_are_refused(tmp_path, shards):
    parts = count_some(["one two"], tmp_path)
    with pytest.raises(InputError, match="has counts of a different text"):
        count(shards, tmp_path)
    with pytest.raises(InputError, match="has parts of another job"):
        count(shards, tmp_path, Counting(window=9))
    (parts / "job.json").unlink()
    with pytest.raises(InputError, match="contains files other than the parts of a job"):
        count(shards, tmp_path)


def test_a_text_that_changes_while_it_is_counted(tmp_path):
    (tmp_path / "text.txt").write_text("one two three")
    [shard] = sources.source_of(tmp_path / "text.txt").shards(tmp_path, Threads(1))
    job = counting.Job(0, shard, counting.digest_of_shard(shard))
    (tmp_path / "text.txt").write_text("one two threw")
    with pytest.raises(InputError, match=r"text.txt changed while it was being counted"):
        counting.count_shard(job, tmp_path, PLAIN)


def test_a_hole_in_the_runs_is_filled(tmp_path, monkeypatch, shards):
    """Some shards were counted and others not; what is merged must not cover them."""
    monkeypatch.setattr(counting, "FAN_IN", 4)
    count(shards, tmp_path / "whole")
    count_some(shards, tmp_path / "again", (0, 2, 4, 5))
    count(shards, tmp_path / "again", threads=1)
    assert content_of(tmp_path / "again" / "target") == content_of(tmp_path / "whole" / "target")


def test_text_may_have_been_appended(tmp_path, shards):
    count_some(shards, tmp_path / "again", range(3))
    with shards.open("a") as stream:
        stream.write(generated_text(100, seed=1))
    count(shards, tmp_path / "whole")
    count(shards, tmp_path / "again")
    assert content_of(tmp_path / "again" / "target") == content_of(tmp_path / "whole" / "target")


def test_a_shorter_text_is_not_the_same(tmp_path, shards):
    count_some(shards, tmp_path)
    shards.write_text("")
    with pytest.raises(InputError, match="has counts of a different text"):
        count(shards, tmp_path)


def test_a_short_text_that_is_not_kept_stays_in_memory(tmp_path):
    text = generated_text(100).split("\n")
    whole = count(text, tmp_path)
    source = sources.source_of(text)
    found = counting.count_text(source, PLAIN, tmp_path / "none", Threads(1), temporary=True)
    assert (found.words, found.blocks) == (whole.words, whole.blocks)
    for name in ("counts", "indptr", "indices", "data"):
        assert getattr(found, name).tolist() == getattr(whole, name).tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    for lines, error in ([["..."], "there are no words"], [["one\ufffd"], None]):
        source = sources.source_of(lines)
        with pytest.raises(InputError, match=error) if error else nullcontext():
            counting.count_text(source, PLAIN, tmp_path / "none", Threads(1), temporary=True)


def test_one_process_at_a_time(tmp_path):
    tmp_path = tmp_path.resolve()
    (tmp_path / "target.parts").mkdir()
    with lock(tmp_path / "target.parts"), pytest.raises(InputError, match="another process is working in"):
        count(["one two"], tmp_path)
