"""Words as people hand them over."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbos import InputError
from pbos.text import as_words, encode, normalize, pack_strings, unpack_strings

WORDS = ["high", "straße", "東京"]


@pytest.mark.parametrize(
    "source",
    [
        WORDS,
        tuple(WORDS),
        iter(WORDS),
        dict.fromkeys(WORDS),
        np.array(WORDS),
        np.array(WORDS, object),
        pd.Series(WORDS),
        pd.Series(WORDS, dtype="string"),
        pd.Index(WORDS),
        pd.Series(WORDS).astype("category"),
        pa.array(WORDS),
        pa.array(WORDS, pa.large_string()),
        pa.chunked_array([WORDS[:1], WORDS[1:]]),
        pa.array(WORDS).dictionary_encode(),
    ],
    ids=lambda source: f"{type(source).__module__}.{type(source).__name__}",
)
def test_everything_that_holds_words(source):
    words = as_words(source)
    assert words == WORDS
    assert {type(word) for word in words} == {str}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("high", "expected many words, got one: 'high'"),
        (b"high", "expected many words, got one"),
        (["high", None], "word 1 is not a str but NoneType: None"),
        (["high", float("nan")], "word 1 is not a str but float: nan"),
        (np.array([["a"]]), r"one-dimensional array of words, got shape \(1, 1\)"),
        (3, "expected words"),
        (pa.array(["a", None]), "word 1 is not a str"),
        (np.array([1, 2]), "word 0 is not a str but int"),
    ],
)
def test_what_holds_no_words(source, message):
    with pytest.raises(InputError, match=message):
        as_words(source)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1)), st.booleans())
def test_code_points_are_pythons_own(words, boundaries):
    codes, offsets = encode(words, boundaries)
    marked = [f"<{word}>" if boundaries else word for word in words]
    assert codes.tolist() == [ord(c) for c in "".join(marked)]
    assert np.diff(offsets).tolist() == [len(word) for word in marked]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_survive_packing(words):
    assert unpack_strings(*pack_strings(words)) == words


def test_normal_forms():
    assert normalize(["e\u0301"], "NFC") == ["é"]
    assert normalize(["ﬁ"], "NFC") == ["ﬁ"]
    assert normalize(["ﬁ"], "NFKC") == ["fi"]
    assert normalize(["ABC", "Ǆ"], "casefold") == ["abc", "ǆ"]
    assert normalize(["e\u0301"], "none") == ["e\u0301"]
