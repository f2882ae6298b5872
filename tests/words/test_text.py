"""Words as people pass them in, and as the index reads them: normalized, with marks, as code points."""

import unicodedata

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbos import InputError
from pbos.settings import Spelling
from pbos.words.subwords import Subwords
from pbos.words.text import as_words, encode, mark, normalize, pack_strings, unpack_strings

WORDS = ["high", "straße", "東京"]
any_word = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
mixed_words = st.text("ab1-'’ _<>€कि้ீ👍\u200d\ufe0f", min_size=1, max_size=12)  # rare in arbitrary text
MARKS = [(False, False), (True, False), (True, True)]  # boundaries, inner_boundaries
FORMS = {
    "NFC": lambda word: unicodedata.normalize("NFC", word),
    "NFKC": lambda word: unicodedata.normalize("NFKC", word),
    "casefold": lambda word: unicodedata.normalize("NFC", word.casefold()),
    "none": str,
}


def pandas():
    return pytest.importorskip("pandas")


def arrow():
    return pytest.importorskip("pyarrow")


# Words as people have them --------------------------------------------------------------------------------------------

SOURCES = {
    "list": lambda: WORDS,
    "tuple": lambda: tuple(WORDS),
    "iterator": lambda: iter(WORDS),
    "dict": lambda: dict.fromkeys(WORDS),
    "NumPy": lambda: np.array(WORDS),
    "NumPy objects": lambda: np.array(WORDS, object),
    "pandas": lambda: pandas().Series(WORDS),
    "pandas string": lambda: pandas().Series(WORDS, dtype="string"),
    "pandas index": lambda: pandas().Index(WORDS),
    "pandas category": lambda: pandas().Series(WORDS).astype("category"),
    "Arrow": lambda: arrow().array(WORDS),
    "Arrow large": lambda: arrow().array(WORDS, arrow().large_string()),
    "Arrow chunks": lambda: arrow().chunked_array([WORDS[:1], WORDS[1:]]),
    "Arrow dictionary": lambda: arrow().array(WORDS).dictionary_encode(),
}


@pytest.mark.parametrize("source", SOURCES)
def test_words_of_any_source(source):
    words = as_words(SOURCES[source]())
    assert words == WORDS
    assert {type(word) for word in words} == {str}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: "high", "expected a list of words, got one string: 'high'; put it in a list"),
        (lambda: b"high", r"expected words \(str\), got bytes; decode it: str\(data, .utf-8.\)"),
        (lambda: np.array([["a"]]), r"expected a one-dimensional array of words, got shape \(1, 1\)"),
        (lambda: pandas().DataFrame({"word": ["a"]}), r"expected a one-dimensional array of words, got shape \(1, 1\)"),
        (lambda: [np.zeros(500)], r"^word 0 is not a str but ndarray: array.{,40}$"),
        (lambda: 3, "expected words"),
        (lambda: ["high", 3], "word 1 is not a str but int: 3"),
        (lambda: ["high", b"low"], r"word 1 is not a str but bytes: b.low.; decode it: str\(data, .utf-8.\)"),
        (lambda: np.array([1, 2]), "word 0 is not a str but int"),
    ],
)
@pytest.mark.parametrize("blank_missing", [False, True])
def test_bad_words(source, message, blank_missing):
    with pytest.raises(InputError, match=message):
        as_words(source(), blank_missing=blank_missing)


MISSING = {
    "None": lambda: ["high", None],
    "NaN": lambda: ["high", float("nan")],
    "NumPy None": lambda: np.array(["high", None], object),
    "NumPy NaN": lambda: np.array(["high", np.nan], object),
    "pandas.NA": lambda: ["high", pandas().NA],
    "pandas.NaT": lambda: ["high", pandas().NaT],
    "pandas objects": lambda: pandas().Series(["high", None]),
    "pandas string": lambda: pandas().Series(["high", None], dtype="string"),
    "pandas category": lambda: pandas().Series(["high", None]).astype("category"),
    "Arrow": lambda: arrow().array(["high", None]),
}


@pytest.mark.parametrize("source", MISSING)
def test_missing_words_are_an_error_that_names_the_position_or_blank(source):
    with pytest.raises(InputError, match=r"word 1 is missing \(.+\); drop such words"):
        as_words(MISSING[source]())
    assert as_words(MISSING[source](), blank_missing=True) == ["high", ""]


def test_words_whose_places_do_not_fit_32_bits(monkeypatch):
    monkeypatch.setattr("pbos.words.text.MOST_CHARACTERS", 8)
    spelling = Spelling(boundaries=True)
    assert encode(["abcdef", "abcdef"], spelling).codes.size == 16
    for words in (["abcdefg"], ["a", "abcdefg"]):
        with pytest.raises(InputError, match="a word of 9 characters is too long; the limit is 8"):
            encode(words, spelling)


# Words as the index reads them ----------------------------------------------------------------------------------------

MARKED = {
    "art": "art",
    "état": "état",
    "state-of-the-art": "state>-<of>-<the>-<art",
    "don't": "don>'<t",
    "l’été": "l>’<été",
    "New York": "New> <York",
    "snake_case": "snake>_<case",
    "-": ">-<",
    "--": ">-<>-<",
    "3.5€": "3>.<5>€<",
    "a<b": "a><<b",
    "x²": "x²",
    "I👍NY": "I>👍<NY",
    "👩‍👧": ">👩<\u200d>👧<",  # two symbols and a joiner
    "नमस्ते": "नमस्ते",
    "हिन्दी-भाषा": "हिन्दी>-<भाषा",
    "น้ำ": "น้ำ",
    "ภาษาไทย": "ภาษาไทย",
    "தமிழ்": "தமிழ்",
    "தமிழ்-நாடு": "தமிழ்>-<நாடு",
    "e\u0301t": "e\u0301t",
    "می\u200cخواهم": "می\u200cخواهم",
    "שָׁלוֹם": "שָׁלוֹם",
}


def spelling_of(marks, normalization="none"):
    boundaries, inner = marks
    return Spelling(normalization=normalization, boundaries=boundaries, inner_boundaries=inner)


def subwords_of(spelling):
    """Subwords of an index with a few letters and marks."""
    table = dict.fromkeys(["a", "b", "ab", "<", ">", "<a", "b>", "-<", ">-", "><", "é"], 0.1)
    return Subwords(oracle.index_of_table(table, {"a", "<a"}), spelling)


@pytest.mark.parametrize("word", MARKED)
def test_inner_marks(word):
    assert mark([word, "art"], spelling_of((True, True))) == [f"<{MARKED[word]}>", "<art>"]


@given(any_word | mixed_words)
def test_combining_marks_stay_with_their_letter(word):
    (marked,) = mark([word], spelling_of((True, True)))
    letters = [
        word[at - 1 : at + 1]
        for at in range(1, len(word))
        if unicodedata.category(word[at])[0] == "M" and unicodedata.category(word[at - 1])[0] in "LNM"
    ]
    assert all(letter in marked for letter in letters)


@given(any_word | mixed_words, st.sampled_from(MARKS), st.sampled_from(list(FORMS)))
def test_marks_are_found_where_they_were_written(word, marks, normalization):
    """Also in words that contain < and > themselves."""
    spans = subwords_of(spelling_of(marks, normalization)).spans(word)
    plain = FORMS[normalization](word)
    assert spans.word == plain
    assert (spans.spelled, spans.is_mark.tolist()) == oracle.written(plain, *marks)


@given(any_word | mixed_words, st.sampled_from(MARKS), st.sampled_from(list(FORMS)))
def test_pieces_have_no_marks_and_join_to_the_normalized_word(word, marks, normalization):
    subwords = subwords_of(spelling_of(marks, normalization))
    for one in [*subwords.segment([word], 5)[0], *subwords.sample([word], 5, seed=0)[0]]:
        assert "".join(one.pieces) == FORMS[normalization](word)
        assert all(one.pieces)


@given(
    st.lists(any_word | mixed_words, min_size=1, max_size=5),
    st.sampled_from(MARKS),
    st.sampled_from(list(FORMS)),
)
def test_code_points_are_those_of_python(words, marks, normalization):
    plain = normalize(words, normalization)
    assert plain == list(map(FORMS[normalization], words))
    codes, offsets = encode(plain, spelling_of(marks))
    marked = [oracle.written(word, *marks)[0] for word in plain]
    assert codes.tolist() == [ord(character) for character in "".join(marked)]
    assert np.diff(offsets).tolist() == list(map(len, marked))


@given(st.lists(any_word, min_size=1, max_size=9), st.data())
def test_part_of_the_encoded_words(words, data):
    first = data.draw(st.integers(0, len(words)))
    last = data.draw(st.integers(first, len(words) + 2))
    spelling = spelling_of((True, False))
    found, expected = encode(words, spelling).part(first, last), encode(words[first:last], spelling)
    assert found.codes.tolist() == expected.codes.tolist()
    assert found.offsets.tolist() == expected.offsets.tolist()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", ""], "word 1001 is an empty string"),
        (["a", "b\ud800"], r"word 1001 \('b\\ud800'\) has a lone surrogate, U\+D800, at 1"),
    ],
)
def test_errors_name_the_position_among_all_words(words, message):
    with pytest.raises(InputError, match=message):
        encode(words, Spelling(), first=1000)


def test_normal_forms():
    assert normalize(["e\u0301"], "NFC") == ["é"]
    assert normalize(["ﬁ"], "NFC") == ["ﬁ"]
    assert normalize(["ﬁ"], "NFKC") == ["fi"]
    assert normalize(["ABC", "Ǆ"], "casefold") == ["abc", "ǆ"]
    assert normalize(["e\u0301"], "none") == ["e\u0301"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_survive_packing(words):
    assert unpack_strings(*pack_strings(words)) == words
