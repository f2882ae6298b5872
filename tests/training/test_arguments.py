"""Arguments that cannot be used are refused before any work is done: not one word, vector or byte of text is read."""

import math
import sys
from functools import partial

import pytest

import pbos
from pbos.errors import InputError, MissingExtraError, PbosError

TRAINING = [  # arguments of train, which learn and complete pass on
    ({"preset": "nonsense"}, "unknown preset 'nonsense'"),
    ({"lamm": 3}, "unknown setting 'lamm'; did you mean 'lam'"),
    ({"lam": -1}, "lam must be a number"),
    ({"max_vectors": 0}, "max_vectors must be at least 1"),
    ({"preset": "pbos", "lr": math.inf}, "lr must be a finite number above 0, got inf"),
    ({"preset": "pbos", "lam": math.nan}, "lam must be a number"),
    ({"limit": 0}, "limit must be at least 1"),
    ({"limit": 1.5}, "limit must be a whole number"),
    ({"heldout": 2}, "heldout must be at least 0 and below 1, got 2"),
    ({"heldout": math.nan}, "heldout must be at least 0 and below 1, got nan"),
    ({"heldout": "half"}, "heldout must be at least 0 and below 1, got half"),
    ({"device": "gpu"}, "unknown device 'gpu'"),
    ({"device": 0}, "unknown device 0"),
    ({"device": "cuda", "preset": "pbos"}, "device 'cuda' needs solver=\"ridge\""),
    ({"threads": 0}, "threads must be at least 1"),
    ({"threads": "two"}, "threads must be a whole number"),
    ({"parts": "parts"}, "parts needs the folder of the model; pass output"),
    ({"info": [1]}, "info must be a mapping of names to plain data"),
    ({"info": {"x": object()}}, "info must be a mapping of names to plain data"),
    ({"info": {"x": math.nan}}, "info must be a mapping of names to plain data"),
    ({"info": {"x": [{"y": -math.inf}]}}, "info must be a mapping of names to plain data"),
    ({"info": {"x": "\ud800"}}, "info must be a mapping of names to plain data"),
    ({"info": {"training": {}}}, 'info has the name "training"'),
]
OUTPUT = [  # arguments of train and learn that need one more, or a place to write
    ({"dtype": "float8"}, "unknown dtype 'float8'"),
    ({"seed": -1}, "seed must be at least 0"),
    ({"seed": "x"}, "seed must be a whole number"),
    ({"output": "no/model"}, "cannot save to no/model: the folder .* does not exist"),
    ({"output": "corpus.txt"}, "corpus.txt is a file"),
    ({"output": "full"}, "full is a folder with something other"),
    *(
        ({"output": "model", "memory": "1G", "parts": parts}, message)
        for parts, message in {
            "full": "files other than the parts of a job",
            "corpus.txt": "corpus.txt is a file; choose a folder for the parts",
            "no/parts": "the folder .* does not exist",
            "model": "it is removed at the end",
            "model/parts": "does not exist",
            "s3://bucket/parts": "mapped into memory",
        }.items()
    ),
]
LEARNING = [
    ({"info": {"learning": {}}}, 'info has the name "learning"'),
    ({"dims": 0}, "dims must be at least 1"),
    ({"min_count": 0}, "min_count must be at least 1"),
    ({"max_words": 0}, "max_words must be at least 1"),
    ({"window": 0}, "window must be at least 1"),
    ({"window": 101}, "window can be at most 100"),
    ({"seed": 2**63}, "seed can be at most"),
    ({"memory": "1M"}, "memory must be at least 512M"),
    ({"memory": "much"}, "memory must be .*, as a number of bytes or a size such as '4G', got 'much'"),
    ({"vectors": "words.xyz"}, "unknown suffix .xyz"),
    ({"vectors": "no/words.vec"}, "no/words.vec cannot be written: its folder does not exist"),
    ({"counts": "counts.xyz"}, "counts cannot be written as .xyz"),
    ({"counts": "no/counts.tsv"}, "no/counts.tsv cannot be written"),
    ({"cooccurrences": "no/pairs"}, "no/pairs cannot be written"),
    ({"add": True}, "add needs a place to keep the counts"),
    ({"resume": True}, "resume needs a place to keep the counts"),
    ({"output": "model", "cooccurrences": "model"}, "model and .*model are the same, or one is inside"),
    ({"output": "model", "cooccurrences": "pairs", "parts": "pairs.parts"}, "or one is inside the other"),
    ({"vectors": "same.txt", "counts": "same.txt"}, "or one is inside the other"),
    ({"output": "full/model", "cooccurrences": "full"}, "full/model and full are the same, or one is inside"),
]
COUNTING = [
    ({"min_count": 0}, "min_count must be at least 1"),
    ({"window": 0}, "window must be at least 1"),
    ({"threads": 0}, "threads must be at least 1"),
    ({"memory": "1M"}, "memory must be at least 512M"),
    ({"add": True}, "add needs a place to keep the counts"),
    ({"resume": True}, "resume needs a place to keep the counts"),
    ({"output": "no/counts.tsv"}, "no/counts.tsv cannot be written"),
    ({"output": "counts.npz"}, "counts cannot be written as .npz"),
    ({"output": "pairs", "cooccurrences": "pairs"}, "pairs and pairs are the same"),
    ({"output": "full/counts.tsv", "cooccurrences": "full"}, "or one is inside the other"),
]


class Unread:
    """Words or sentences that must not be read."""

    def __iter__(self):
        raise AssertionError("it was read")


@pytest.fixture(autouse=True)
def _places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    (tmp_path / "corpus.txt").touch()
    yield
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["corpus.txt", "full", "thesis.txt"]


@pytest.mark.parametrize(("options", "message"), [*LEARNING, *TRAINING, *OUTPUT])
def test_learn_reads_no_text(options, message):
    with pytest.raises(PbosError, match=message):
        pbos.learn(Unread(), **options)


@pytest.mark.parametrize(("options", "message"), COUNTING)
def test_count_reads_no_text(options, message):
    with pytest.raises(PbosError, match=message):
        pbos.count(Unread(), **options)


def test_a_missing_extra_is_found_before_any_text_is_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    for call in (
        partial(pbos.count, output="counts.tsv.zst"),
        partial(pbos.learn, counts="counts.tsv.zst"),
        partial(pbos.learn, vectors="words.vec.zst"),
    ):
        with pytest.raises(MissingExtraError, match=r"reading or writing \.zst files"):
            call(Unread())


WITHOUT_OUTPUT = [
    ({"memory": "1G"}, "memory needs the folder of the model"),
    ({"output": "model", "parts": "parts"}, "parts is a folder for what memory or scheduler needs"),
]


@pytest.mark.parametrize(("options", "message"), [*TRAINING, *OUTPUT, *WITHOUT_OUTPUT])
@pytest.mark.parametrize("counts", [None, "no-counts.tsv"])
def test_train_reads_neither_vectors_nor_counts(options, message, counts):
    with pytest.raises(PbosError, match=message):
        pbos.train("missing.vec", counts, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *TRAINING,
        ({"min_confidence": 2}, "min_confidence must be a number from 0 to 1"),
        ({"min_confidence": 0.5, "preset": "bos"}, "min_confidence needs a model that has a confidence"),
        ({"limit": 5, "model": "missing"}, "limit is for training"),
        ({"preset": "bos", "model": "missing"}, "preset is for training"),
    ],
)
def test_complete_reads_neither_vectors_nor_words(options, message):
    with pytest.raises(PbosError, match=message):
        pbos.complete("missing.vec", Unread(), **options)


def test_counts_are_read_before_vectors():
    """They are smaller, and what is wrong with them is then found out sooner."""
    with pytest.raises(InputError, match="no-counts"):
        pbos.train("missing.vec", "no-counts.tsv")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train missing.vec -o model --heldout 2", "heldout must be at least 0 and below 1"),
        ("train missing.vec -o model --memory 1G --heldout 2", "heldout must be at least 0 and below 1"),
        ("train missing.vec -o model --plan --lam -1", "lam must be a number"),
        ("train missing.vec -o model --memory 1G --device gpu", "unknown device 'gpu'"),
        ("train missing.vec -o model --parts parts", "parts is a folder for what memory or scheduler needs"),
        ("train missing.vec -o model --memory 1G --parts full", "files other than the parts of a job"),
        ("complete missing.vec missing.txt -o out.vec --min-confidence 2", "min_confidence must be a number from 0"),
        ("complete missing.vec missing.txt -o out.vec -m missing --limit 5", "limit is for training"),
        ("learn missing.txt -o model --memory 1M", "memory must be at least 512M"),
        ("learn missing.txt -o model --vectors words.xyz", "unknown suffix .xyz"),
        ("learn missing.txt -o model --max-vectors 0", "max_vectors must be at least 1"),
    ],
)
def test_commands_read_nothing(run, command, message):
    code, out, err = run(*command.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_learn_keeps_the_info_that_is_given(tmp_path):
    text = ["the cat sat on the mat", "a dog sat on a log", "the dog saw the cat"] * 20
    model = pbos.learn(text, dims=2, info={"license": "MIT", "x": [1, None]})
    assert (model.info["license"], model.info["x"]) == ("MIT", [1, None])
    assert model.info["learning"]["tokens"] == 20 * 17
    assert pbos.learn(text, dims=2).info == {name: model.info[name] for name in model.info if name not in "license x"}
