"""Messages about words of the wrong kind: they are true for the method that was called, and their advice works."""

import re

import numpy as np
import pytest

import pbos
from pbos import InputError

WORDS = ["high", "higher", "highest", "low", "lower", "lowest"]
MODEL_METHODS = {
    "embed": lambda model, words, **options: model.embed(words, **options),
    "confidence": lambda model, words, **options: model.confidence(words, **options),
    "[]": lambda model, words: model[words],
    "similarity": lambda model, words: model.similarity(words, "low"),
    "similarity of second": lambda model, words: model.similarity("low", words),
    "neighbors": lambda model, words: model.neighbors(words),
    "neighbors positive": lambda model, words: model.neighbors(positive=words),
    "neighbors negative": lambda model, words: model.neighbors(positive="low", negative=words),
    "neighbors among": lambda model, words: model.neighbors("low", among=words),
}
SEGMENTER_METHODS = {
    name: lambda model, words, name=name: getattr(model, name)(words)
    for name in ("segment", "sample", "weights", "entropy", "coverage", "lattice", "explain", "read_as")
}
TABLES = {  # with another word, as a table of none is an error of its own
    "WordCounts": lambda _, words: pbos.WordCounts(more(words), np.ones(size(words) + 1)),
    "WordVectors": lambda _, words: pbos.WordVectors(more(words), np.ones((size(words) + 1, 2))),
    "from_ranks": lambda _, words: pbos.WordCounts.from_ranks(more(words)),
    "complete": lambda model, words: pbos.complete((WORDS, np.eye(6)), words, model=model),
}


def more(words):
    return [*words, "more"] if isinstance(words, list) else words


def size(words):
    return np.size(words) if isinstance(words, (list, np.ndarray)) else 1


WRONG = {
    "empty": "",
    "None": None,
    "NaN": float("nan"),
    "bytes": b"high",
    "bytearray": bytearray(b"high"),
    "memoryview": memoryview(b"high"),
    "int": 5,
    "function": len,
    "list with empty": ["low", ""],
    "list with None": ["low", None],
    "list with masked": ["low", np.ma.masked],
    "masked array": np.ma.array(["low", "high"], mask=[0, 1]),
    "list with bytes": ["low", b"high"],
    "array of bytes": np.array([b"high"]),
    "list with int": ["low", 5],
    "list of lists": [["low"]],
    "array without dimension": np.array("low"),
    "matrix": np.array([["low"]]),
    "lone surrogate": "lo\ud800w",
    "list with lone surrogate": ["low", "lo\ud800w"],
}


@pytest.fixture(scope="module")
def model():
    return pbos.train((WORDS, np.eye(6)), lam=0.1)


@pytest.fixture(scope="module")
def segmenter():
    return pbos.Segmenter.from_counts(dict.fromkeys(WORDS, 1))


def as_text(word):
    return str(word, "utf-8") if isinstance(word, (bytes, bytearray, memoryview)) else word


def followed(message, words):
    """The words after the advice of a message was followed; None if it only says what was expected."""
    many = list(words) if isinstance(words, (list, np.ndarray)) and np.ndim(words) else None
    if "put it in a list" in message:
        return [words]
    if "decode it: str(data, 'utf-8')" in message:
        return as_text(words) if many is None else [as_text(word) for word in many]
    if re.search("drop (such words|the word|it)", message):
        at = int(re.search(r"^word (\d+) ", message)[1])
        return [] if many is None else [word for place, word in enumerate(many) if place != at]
    return None


CASES = [
    *(("model", *method) for method in [*MODEL_METHODS.items(), *SEGMENTER_METHODS.items(), *TABLES.items()]),
    *(("segmenter", *method) for method in SEGMENTER_METHODS.items()),
]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(("kind", "name", "method"), CASES, ids=[f"{kind} {name}" for kind, name, _ in CASES])
@pytest.mark.filterwarnings("ignore:word counts. dropped the empty word", "ignore:word vectors. dropped 1 empty word")
def test_the_message_is_true_and_its_advice_works(kind, name, method, wrong, model, segmenter, confident):
    owner = segmenter if kind == "segmenter" else confident if name == "confidence" else model
    words = WRONG[wrong]
    for _ in range(4):  # a word in bytes becomes one string, which becomes a list
        try:
            method(owner, words)
            break
        except InputError as error:
            message = str(error)
        assert "\n" not in message
        if 'embed them with missing="zeros"' in message:
            assert name in ("embed", "[]")
            assert owner.embed(words, missing="zeros") is not None
        elif "missing=" in message:
            assert 'or use missing="zeros"' in message
            assert method(owner, words, missing="zeros") is not None
        advised = followed(message, words)
        if advised is None:  # it says what was expected, and what it got instead
            items = words if isinstance(words, (list, np.ndarray)) and np.ndim(words) else []
            kinds = "|".join({type(one).__name__ for one in (words, *items)})
            expected = rf"got ({kinds}|None|masked|5|shape)|not a str but ({kinds})|not both|no words to add; pass"
            assert re.search(expected, message)
            break
        words = advised
    else:
        raise AssertionError(f"the advice leads nowhere: {message}")


@pytest.mark.parametrize("name", ["embed", "confidence"])
def test_methods_that_take_missing_words_say_so(name, model, confident):
    for words in ("", None, ["low", ""], ["low", None]):
        with pytest.raises(InputError, match=r'drop such words, or (embed them with|use) missing="zeros"$'):
            MODEL_METHODS[name](confident if name == "confidence" else model, words)


def test_the_place_of_a_bad_word_among_those_to_add(model):
    for items in (["low", ""], ["low", "a\ud800"], [model["low"], ""]):
        for arguments in ({"positive": items}, {"positive": "low", "negative": items}):
            with pytest.raises(InputError, match=r"^word 1 "):
                model.neighbors(**arguments)


def test_a_place_to_write_to_that_is_not_contiguous_is_called_so(model):
    with pytest.raises(InputError, match=r"got float32 \(2, 6\), not C-contiguous$"):
        model.embed(["low", "high"], out=np.zeros((6, 2), np.float32).T)


@pytest.mark.parametrize("path", [b"model", 5, 5.5, ["model"], np.array([1, 2]), object()])
def test_a_path_is_text_or_a_path(path, model, segmenter):
    uses = (pbos.load, pbos.Segmenter.load, model.save, segmenter.save, pbos.WordVectors.read, pbos.WordCounts.read)
    for use in uses:
        with pytest.raises(InputError, match=rf"^expected a path \(str or Path\), got {type(path).__name__}$"):
            use(path)
