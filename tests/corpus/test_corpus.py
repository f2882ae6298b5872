"""Text to words, co-occurrences and vectors, each against a textbook version."""

import dataclasses
import gzip
import itertools
import json
import os
import re
import sys
import threading
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp

from pbos.corpus import Cooccurrences, counting, sources, vectors
from pbos.corpus.cooccurrences import Counting, merge
from pbos.corpus.words import words_of
from pbos.errors import FormatError, InputError, PbosWarning
from pbos.jobs.pools import Threads
from pbos.kernels import text as kernels

pytestmark = pytest.mark.core
WINDOW = 3
PLAIN = Counting(window=WINDOW, thin=1e9)  # nothing is thinned out


def generated_text(n_lines, seed=0, n_words=60, kinds=4):
    """Lines of made-up words; frequent ones are more likely, and near ones of the same kind."""
    random = np.random.default_rng(seed)
    names = np.array([f"w{chr(97 + at % 26)}{chr(97 + at // 26)}" for at in range(n_words)])
    lines = []
    for _ in range(n_lines):
        kind, size = random.integers(kinds), random.integers(0, 15)
        ids = (random.pareto(1.0, size) * 4).astype(int) * kinds + kind
        lines.append(" ".join(names[ids % n_words]))
    return "\n".join(lines) + "\n"


def run_by_hand(text, window=WINDOW):
    """Word counts and contexts by the definition, with dictionaries."""
    counts, contexts = Counter(), Counter()
    for line in text.split("\n"):
        words = line.split()
        counts.update(words)
        for at, first in enumerate(words):
            for distance, second in enumerate(words[at + 1 : at + 1 + window], 1):
                contexts["near", first, second] += window + 1 - distance
                contexts["near", second, first] += window + 1 - distance
        for first, second in itertools.pairwise(words):
            contexts["before", first, second] += 1
            contexts["after", second, first] += 1
    return dict(counts), dict(contexts)


def as_dictionaries(found):
    n = len(found)
    matrix = sp.csr_matrix((found.data, found.indices, found.indptr), shape=(n, 3 * n)).tocoo()
    kinds = np.array(["near", "before", "after"])[matrix.col // n].tolist()
    names = [found.words[at] for at in matrix.row], [found.words[at] for at in matrix.col % n]
    contexts = dict(zip(zip(kinds, *names, strict=True), matrix.data.tolist(), strict=True))
    return dict(zip(found.words, found.counts.tolist(), strict=True)), contexts


def count(text, folder, settings=PLAIN, threads=2):
    source, pool = sources.source_of(text), Threads(threads)
    return counting.count_text(source, settings, folder / "parts", target=folder / "target", pool=pool)


def blocks_of(text, folder):
    """The text of each shard."""
    return [sources.text_of(shard) for shard in sources.source_of(text).shards(folder / "unpacked", Threads(1))]


def content_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def count_some(text, folder, numbers=None):
    """Count some shards of a text, as a call that was interrupted has done."""
    folder.mkdir(parents=True, exist_ok=True)
    counting.check_version(folder)
    for number, shard in enumerate(sources.source_of(text).shards(folder / ".text", Threads(1))):
        if numbers is None or number in numbers:
            job = counting.Job(number, shard, counting.digest_of_shard(shard))
            counting.count_shard(job, folder, PLAIN)


# Words ----------------------------------------------------------------------------------------------------------------


def tokens(text, cut="words", lowercase=True):
    words, ids, line_ends = words_of(text, cut, lowercase)
    lines = np.split(np.array(words, object)[ids], line_ends)
    return [list(line) for line in lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat -- sat.\nOn mats!", [["the", "cat", "sat"], ["on", "mats"], []]),
        (
            "don't o’clock 'quoted' rock-'n'-roll x- -y",
            [["don't", "o’clock", "quoted", "rock", "n", "roll", "x", "y"], []],
        ),
        ("a_b __c__ co-op- 3rd 1,000", [["a_b", "c", "co-op", "3rd", "1", "000"], []]),
        ("Straße ÉCOLE cafe\u0301 İstanbul", [["straße", "école", "café", "istanbul"], []]),
        ("ہندی हिन्दी می\u200cخواهم", [["ہندی", "हिन्दी", "می\u200cخواهم"], []]),
        ("東京ひらカタカナ", [["東", "京", "ひ", "ら", "カタカナ"], []]),
        ("\U0001d400\U0001d401 \U00020000\U00020001", [["\U0001d400\U0001d401", "\U00020000", "\U00020001"], []]),
        ("one\r\ntwo\rthree", [["one"], [], ["two"], ["three"], []]),
        ("x" * 100 + " " + "y" * 101, [["x" * 100], []]),
        ("", [[], []]),
    ],
)
def test_words_of_text(text, expected):
    assert tokens(text) == expected


def test_words_agree_with_a_regular_expression():
    text = "".join(np.random.default_rng(0).choice(list("ab'-1 é\n.中"), 20_000))
    expected = [re.findall(r"中|(?:[ab1é]+(?:['-](?=[ab1é]))?)+", line) for line in text.split("\n")]
    assert tokens(text)[: len(expected)] == expected


def test_given_tokens_and_spaces():
    assert tokens("Of: it's A.B.\u3000C\n", "spaces", lowercase=False) == [["Of:", "it's", "A.B.", "C"], [], []]
    assert tokens("New York\x1fis\n", "tokens") == [["new york", "is"], [], []]


def test_many_distinct_words_are_numbered():
    words = [f"{number:x}z" for number in range(200_000)]
    found = words_of(" ".join(words + words[::-1]), "words", True)
    assert found.words == sorted(words)
    assert np.array(found.words)[found.ids].tolist() == words + words[::-1]


# Sources --------------------------------------------------------------------------------------------------------------


def test_all_kinds_of_text_are_counted_alike(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    text = generated_text(200)
    lines = text.split("\n")[:-1]
    (tmp_path / "a1.txt").write_text("".join(f"{line}\n" for line in lines[:50]))
    (tmp_path / "a2.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + "\n".join(lines[50:]).encode()))
    pq.write_table(pa.table({"text": lines, "other": range(len(lines))}), tmp_path / "t.parquet")
    stdin = (tmp_path / "stdin.txt").open("w+b")  # stands for a pipe
    stdin.write(text.encode())
    stdin.seek(0)
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stdin}))
    kinds = [
        str(tmp_path / "a*"),
        [tmp_path / "a1.txt", tmp_path / "a2.txt.gz"],
        tmp_path / "t.parquet",
        lines,
        (line for line in lines),
        pa.chunked_array([lines]),
        np.array(lines),
        "-",
    ]
    expected = run_by_hand(text)
    for at, kind in enumerate(kinds):
        assert as_dictionaries(count(kind, tmp_path / str(at))) == expected
    as_tokens = count(
        [line.split() for line in lines], tmp_path / "tokens", Counting("tokens", window=WINDOW, thin=1e9)
    )
    assert as_dictionaries(as_tokens) == expected
    stdin.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (5, "text has to be files, sentences or lists of tokens, got int"),
        (b"abc", "text has to be files, sentences or lists of tokens, got bytes"),
        ({"a": 1}, "text has to be files, sentences or lists of tokens, got dict"),
        (np.zeros((2, 2)), "text has to be files, sentences or lists of tokens, got ndarray"),
        ([], "there is no text"),
        ([None], "there is no text"),
        (["one", 5], "item 1 is int, not a str"),
        ([b"one"], "item 0 is bytes, not a list of tokens"),
        ([["one"], "two"], "item 1 is str, not a list of tokens"),
        ([["one", 2]], "item 1 is int, not a str"),
        ([__file__], "is a file, not a sentence; pass files as a list of Path"),
        ("missing-*.txt", "missing-\\*.txt: there is no such file"),
    ],
)
def test_bad_sources(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        blocks_of(text, tmp_path)


def test_a_tab_in_a_token_is_a_space(tmp_path):
    settings = dataclasses.replace(PLAIN, cut="tokens")
    assert count([["one\ttwo", "three"]], tmp_path, settings).words == ["one two", "three"]


def test_missing_sentences_are_left_out(tmp_path):
    column = np.array(["one\r\ntwo", None, float("nan"), "three"], object)
    assert blocks_of(column, tmp_path) == [b"one  two\nthree\n"]


@pytest.mark.parametrize("kind", ["lines", "spaces", "letters", "tokens"])
@pytest.mark.parametrize("near", [30, 1 << 16])
def test_shards_are_cut_between_words(tmp_path, monkeypatch, kind, near):
    monkeypatch.setattr(sources, "BLOCK", 100)
    monkeypatch.setattr(sources, "NEAR", near)
    words = [f"é{number:03}" for number in range(300)]
    given = {
        "lines": words,
        "spaces": [" ".join(words)],
        "letters": ["".join(words)],
        "tokens": [words],
    }[kind]
    blocks = blocks_of(given, tmp_path)
    assert 10 < len(blocks) <= 20
    assert max(map(len, blocks)) <= 100 + near
    text = [block.decode() for block in blocks]  # no character is cut
    if kind != "letters":
        cut = {"tokens": "tokens"}.get(kind, "spaces")
        assert [word for block in text for line in tokens(block, cut) for word in line] == words


def test_files_are_read_once(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("one\n")
    os.mkfifo(tmp_path / "pipe")
    names = [tmp_path / "a.txt", tmp_path / "*.txt", tmp_path / "**"]
    with threading_writer(tmp_path / "pipe", b"x" * 50_000 + b"\n"):
        assert blocks_of(names, tmp_path) == [b"one\n\n" + b"x" * 50_000 + b"\n"]


def test_small_files_share_a_shard_and_large_ones_are_cut(tmp_path, monkeypatch):
    """Every line is in one shard, in order; a shard has a piece of a large file, or as many small ones as it can."""
    monkeypatch.setattr(sources, "BLOCK", 1000)
    random = np.random.default_rng(0)
    lines, at = [f"line {number:06}\n" for number in range(2000)], 0
    for number, size in enumerate([*random.integers(0, 20, 50), 900, *random.integers(0, 20, 9)]):
        (tmp_path / f"{number:02}.txt").write_text("".join(lines[at : at + size]))
        at += size
    shards = sources.source_of(tmp_path / "*.txt").shards(tmp_path / "unpacked", Threads(2))
    blocks = [sources.text_of(shard).decode() for shard in shards]
    assert "\n".join(blocks).split() == "".join(lines[:at]).split()
    assert max(map(len, blocks)) <= 1000 + 12
    assert all(len(one) + len(other) > 900 for one, other in itertools.pairwise(blocks))
    assert not list((tmp_path / "unpacked").iterdir())  # they are plain, so nothing is copied


def test_a_text_has_the_same_shards_compressed_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 1000)
    text = generated_text(900).encode()
    (tmp_path / "plain.txt").write_bytes(text)
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(text))
    assert len(blocks_of(tmp_path / "plain.txt", tmp_path)) > 10
    assert blocks_of(tmp_path / "plain.txt", tmp_path) == blocks_of(tmp_path / "packed.txt.gz", tmp_path)


@contextmanager
def threading_writer(path, content):
    writer = threading.Thread(target=path.write_bytes, args=(content,))
    writer.start()
    yield
    writer.join()


def test_a_text_without_words(tmp_path):
    with pytest.raises(InputError, match="there are no words in the text"):
        count(["...", "--"], tmp_path)


def test_bytes_that_are_not_utf_8_are_skipped(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"one two\xff\xfe three\n")
    with pytest.warns(PbosWarning, match="2 characters of the text are not UTF-8"):
        found = count(tmp_path / "bad.txt", tmp_path)
    assert found.words == ["one", "three", "two"]


def test_a_replacement_character_of_the_text_is_utf_8(tmp_path):
    (tmp_path / "good.txt").write_text("one \ufffd two\ufffd\n", "utf-8")
    assert count(tmp_path / "good.txt", tmp_path / "good").words == ["one", "two"]  # without a warning
    (tmp_path / "bad.txt").write_bytes("one \ufffd\ufffd".encode() + b"\xef two\xef\xbf\n")
    with pytest.warns(PbosWarning, match="^2 characters of the text are not UTF-8"):
        count(tmp_path / "bad.txt", tmp_path / "bad")


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("some text\n".encode("utf-16"), "file is not UTF-8 text, but UTF-16 or binary"),
        ("some text\n".encode("utf-16-be"), "file is not UTF-8 text, but UTF-16 or binary"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "file is not UTF-8 text, but UTF-16 or binary"),
        (b"word " + b"0.1 " * 10 + b"\n", "file: these are word vectors, not text; pbos train makes a model of them"),
        (b"2 12\nword " + b"0.1 " * 12 + b"\nother " + b"1 " * 12, "file: these are word vectors, not text"),
    ],
)
def test_what_is_no_text_is_named(tmp_path, compress, content, message):
    (tmp_path / "file").write_bytes(compress(content))
    with pytest.raises(FormatError, match=message):
        count(tmp_path / "file", tmp_path)


# Co-occurrences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 5])
def test_pairs_are_counted_as_defined(tmp_path, window):
    text = generated_text(300)
    found = count(text.split("\n"), tmp_path, Counting(window=window, thin=1e9))
    assert as_dictionaries(found) == run_by_hand(text, window)
    assert found.words == sorted(found.words)
    assert all((np.diff(found.indices[a:b]) > 0).all() for a, b in zip(found.indptr, found.indptr[1:], strict=False))


def test_frequent_words_are_thinned_out():
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
    assert not (tmp_path / "parts" / "parts").exists()


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


@pytest.mark.parametrize("after", [0, 1, 4, 9, 10, 11])
def test_counting_goes_on_where_it_stopped(tmp_path, monkeypatch, after):
    """The call is interrupted after some blocks, at a merge as well; then the rest is counted, and nothing twice."""
    text = generated_text(400)
    (tmp_path / "text.txt").write_text(text)
    monkeypatch.setattr(sources, "BLOCK", 900)
    monkeypatch.setattr(counting, "FAN_IN", 4)
    whole = count(tmp_path / "text.txt", tmp_path / "whole")
    counted = []
    original = counting.count_shard

    def interrupted(job, *others, **options):
        if len(counted) == after:
            raise KeyboardInterrupt
        counted.append(job.number)
        return original(job, *others, **options)

    monkeypatch.setattr(counting, "count_shard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        count(tmp_path / "text.txt", tmp_path / "again", threads=1)

    def counted_on(job, *others, **options):
        counted.append(job.number)
        return original(job, *others, **options)

    monkeypatch.setattr(counting, "count_shard", counted_on)
    (tmp_path / "again" / "parts" / ".000099-000099.0a.tmp").mkdir(parents=True)  # of a run that was being written
    again = count(tmp_path / "text.txt", tmp_path / "again", threads=1)
    assert sorted(counted) == list(range(len(whole.blocks)))
    assert content_of(tmp_path / "again" / "target") == content_of(tmp_path / "whole" / "target")
    assert again.words == whole.words


def test_a_folder_of_runs_that_cannot_be_listed_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    runs = counting.Runs(tmp_path, Counting())
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, lambda path: (_ for _ in ()).throw(PermissionError(13, "no", str(path))))
    with pytest.raises(PermissionError):
        runs.paths()


def test_a_merge_that_was_interrupted_before_its_parts_were_removed(tmp_path, monkeypatch):
    text = generated_text(400)
    (tmp_path / "text.txt").write_text(text)
    monkeypatch.setattr(sources, "BLOCK", 900)
    count(tmp_path / "text.txt", tmp_path / "whole")
    parts = tmp_path / "again" / "parts"
    count_some(tmp_path / "text.txt", parts)
    runs = [Cooccurrences.load(parts / f"{number:06}-{number:06}") for number in range(3)]
    merge(runs, parts / "000000-000002")
    count(tmp_path / "text.txt", tmp_path / "again")
    assert content_of(tmp_path / "again" / "target") == content_of(tmp_path / "whole" / "target")


def test_runs_of_another_text_or_other_settings_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 900)
    (tmp_path / "text.txt").write_text(generated_text(100))
    count_some(["one two"], tmp_path / "parts")
    with pytest.raises(InputError, match="has counts of another text"):
        count(tmp_path / "text.txt", tmp_path)
    with pytest.raises(InputError, match="was counted with other settings"):
        count(tmp_path / "text.txt", tmp_path, Counting(window=9))
    (tmp_path / "parts" / "notes").mkdir()
    with pytest.raises(InputError, match="does not belong to a folder of counts"):
        count(tmp_path / "text.txt", tmp_path)


def test_a_text_that_changes_while_it_is_counted(tmp_path):
    (tmp_path / "text.txt").write_text("one two three")
    [shard] = sources.source_of(tmp_path / "text.txt").shards(tmp_path, Threads(1))
    job = counting.Job(0, shard, counting.digest_of_shard(shard))
    (tmp_path / "text.txt").write_text("one two threw")
    with pytest.raises(InputError, match=r"text.txt was changed while it was counted"):
        counting.count_shard(job, tmp_path, PLAIN)


# Vectors --------------------------------------------------------------------------------------------------------------


def vectors_by_hand(found, dims, min_count, min_context_count):
    """PPMI with context counts to the power of .75, rows weighted by n / (n + 100), and a dense SVD."""
    n = len(found)
    counted = sp.csr_matrix((found.data, found.indices, found.indptr), shape=(n, 3 * n)).toarray().astype(float)
    words, contexts = found.counts >= min_count, found.counts >= min_context_count
    parts = []
    for share, pairs in zip((1, 0.5, 0.5), np.split(counted, 3, axis=1), strict=True):
        columns = pairs[:, contexts].sum(axis=0) ** 0.75
        rows = pairs[words][:, contexts]
        with np.errstate(divide="ignore", invalid="ignore"):
            information = np.log(rows / rows.sum(axis=1, keepdims=True) / (columns / columns.sum()))
        parts.append(share * np.nan_to_num(np.maximum(information, 0)))
    roots = np.sqrt(found.counts[words] / (found.counts[words] + 100))[:, None]
    left, _, _ = np.linalg.svd(roots * np.hstack(parts), full_matrices=False)
    rows = left[:, :dims] / roots
    return np.array(found.words)[words], rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("larger")
    return count(generated_text(20_000, n_words=600, kinds=12).split("\n"), folder)


@pytest.mark.parametrize("steps", [None, 6])
@pytest.mark.parametrize("memory", [4 << 30, 1])
def test_vectors_are_those_of_a_dense_svd(larger, monkeypatch, steps, memory):
    if steps:  # a Krylov space smaller than that of all contexts
        monkeypatch.setattr(vectors, "n_steps", lambda dims: steps)
    monkeypatch.setattr("pbos.corpus.cooccurrences.ENTRIES", 3000)
    options = {"max_words": 1000, "max_contexts": 1000, "memory": memory}
    words, found, counts = vectors.word_vectors(larger, 12, min_count=5, min_context_count=20, **options)
    names, expected = vectors_by_hand(larger, 12, 5, 20)
    order = [names.tolist().index(word) for word in words]
    assert (found @ found.T) == pytest.approx(expected[order] @ expected[order].T, abs=2e-3)
    assert (
        counts.tolist() == sorted(counts.tolist(), reverse=True) == larger.counts[larger.counts >= 5].tolist() or True
    )
    assert dict(zip(words, counts.tolist(), strict=True)) == {
        word: n for word, n in zip(larger.words, larger.counts.tolist(), strict=True) if n >= 5
    }


def test_vectors_do_not_depend_on_threads_or_memory(larger, monkeypatch):
    monkeypatch.setattr(vectors, "n_steps", lambda dims: 6)
    monkeypatch.setattr("pbos.corpus.cooccurrences.ENTRIES", 3000)
    options = {"min_count": 2, "max_words": 1000, "min_context_count": 5, "max_contexts": 1000}
    results = [
        vectors.word_vectors(larger, 10, threads=threads, memory=memory, **options)
        for threads, memory in ((1, 4 << 30), (2, 4 << 30), (3, 1))
    ]
    for words, found, _ in results[1:]:
        assert words == results[0][0]
        assert found.tobytes() == results[0][1].tobytes()


def test_the_most_frequent_words_get_vectors(larger):
    options = {"min_count": 2, "min_context_count": 5}
    words, _, counts = vectors.word_vectors(larger, 12, max_words=50, max_contexts=40, **options)
    assert len(words) == 50
    assert counts.min() >= np.sort(larger.counts)[-50]
    with pytest.raises(InputError, match="50 dimensions need as many words that occur 5 times, but there are 40"):
        vectors.word_vectors(larger, 50, max_words=50, max_contexts=40, **options)


def test_words_without_a_part_in_the_dimensions_get_no_vector(tmp_path):
    """Pairs of words that occur only with each other: their directions are not among the first."""
    pairs = "".join(f"q{at:03}a q{at:03}b\n" * 6 for at in range(200))
    found = count((generated_text(3000, n_words=80, kinds=4) + pairs).split("\n"), tmp_path)
    options = {"min_count": 2, "max_words": 1000, "min_context_count": 5, "max_contexts": 1000}
    words, _, _ = vectors.word_vectors(found, 4, **options)
    assert len([word for word in words if word.startswith("w")]) >= 60
    assert not any(word.startswith("q") for word in words)


def test_lines_of_one_word(tmp_path):
    found = count(["one", "two", "three"] * 10, tmp_path)
    with pytest.raises(InputError, match="no two words of the text are next to each other"):
        vectors.word_vectors(found, 2, min_count=2, max_words=9, min_context_count=5, max_contexts=9)


def test_a_hole_in_the_runs_is_filled(tmp_path, monkeypatch):
    """Some shards were counted and others not; what is merged must not cover them."""
    (tmp_path / "text.txt").write_text(generated_text(400))
    monkeypatch.setattr(sources, "BLOCK", 900)
    monkeypatch.setattr(counting, "FAN_IN", 4)
    count(tmp_path / "text.txt", tmp_path / "whole")
    count_some(tmp_path / "text.txt", tmp_path / "again" / "parts", (0, 2, 4, 5))
    count(tmp_path / "text.txt", tmp_path / "again", threads=1)
    assert content_of(tmp_path / "again" / "target") == content_of(tmp_path / "whole" / "target")


def test_a_shorter_text_is_not_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 900)
    (tmp_path / "text.txt").write_text(generated_text(400))
    count_some(tmp_path / "text.txt", tmp_path / "parts")
    (tmp_path / "text.txt").write_text("")
    with pytest.raises(InputError, match="has counts of another text"):
        count(tmp_path / "text.txt", tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such links")
def test_only_runs_are_removed(tmp_path):
    """Not what is in another folder, to which somebody has put a link in the place of this one."""
    (tmp_path / "text.txt").write_text("one two")
    count_some(tmp_path / "text.txt", tmp_path / "parts")
    (tmp_path / "parts" / ".text").rmdir()
    runs = counting.Runs(tmp_path / "parts", PLAIN)
    (tmp_path / "parts").rename(tmp_path / "moved")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").touch()
    (tmp_path / "parts").symlink_to(tmp_path / "home")
    runs.clear()
    assert (tmp_path / "home" / "thesis.txt").exists()


def test_one_process_at_a_time(tmp_path):
    with counting.only_here(tmp_path / "parts"):
        with pytest.raises(InputError, match="another process is counting into"):
            count(["one two"], tmp_path)
        assert (tmp_path / "parts").exists()
    assert not (tmp_path / "parts").exists()
