"""How words are written before they are cut: marks, combining characters, and settings that make no sense."""

import unicodedata

import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbos import InputError
from pbos.spelling import Spelling
from pbos.text import mark_parts

any_word = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
mixed_words = st.text("ab1-'’ _<>€कि้ீ👍\u200d\ufe0f", min_size=1, max_size=12)  # what is rare in any text

WRITTEN = {
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


@pytest.mark.parametrize("word", WRITTEN)
def test_parts_of_words_begin_and_end_like_words(word):
    assert mark_parts([word, "art"]) == [WRITTEN[word], "art"]
    text, is_mark = Spelling(normalization="none", boundaries=True, inner_boundaries=True).write(word)
    assert text == f"<{WRITTEN[word]}>"
    assert "".join(c for c, mark in zip(text, is_mark, strict=True) if not mark) == word
    assert {c for c, mark in zip(text, is_mark, strict=True) if mark} <= {"<", ">"}


@given(any_word | mixed_words)
def test_no_combining_mark_is_cut_off_its_letter(word):
    (marked,) = mark_parts([word])
    letters = [
        word[at - 1 : at + 1]
        for at in range(1, len(word))
        if unicodedata.category(word[at])[0] == "M" and unicodedata.category(word[at - 1])[0] in "LNM"
    ]
    assert all(letter in marked for letter in letters)


@given(
    st.lists(any_word | mixed_words, min_size=1, max_size=5),
    st.sampled_from([(False, False), (True, False), (True, True)]),
    st.sampled_from(["NFC", "NFKC", "casefold", "none"]),
)
def test_one_word_is_written_as_many_are_laid_out(words, marks, normalization):
    boundaries, inner = marks
    spelling = Spelling(normalization, boundaries, inner_boundaries=inner)
    forms = {"casefold": lambda w: unicodedata.normalize("NFC", w.casefold()), "none": str}
    form = forms.get(normalization, lambda w: unicodedata.normalize(normalization, w))
    codes = spelling.codes(words)
    for i, word in enumerate(words):
        text, is_mark = spelling.write(word)
        assert (text, is_mark.tolist()) == oracle.written(form(word), boundaries, inner)
        assert codes.codes[codes.offsets[i] : codes.offsets[i + 1]].tolist() == [ord(c) for c in text]


@given(st.lists(any_word, min_size=1, max_size=9), st.data())
def test_part_of_the_words_laid_out(words, data):
    first = data.draw(st.integers(0, len(words)))
    last = data.draw(st.integers(first, len(words) + 2))
    spelling = Spelling(normalization="none", boundaries=True)
    found, expected = spelling.codes(words).part(first, last), spelling.codes(words[first:last])
    assert found.codes.tolist() == expected.codes.tolist()
    assert found.offsets.tolist() == expected.offsets.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalization": "nfd"}, "unknown normalization 'nfd'; choose one of: NFC, NFKC, casefold, none"),
        ({"weighting": "x"}, "unknown weighting 'x'; choose one of: posterior, uniform, both"),
        ({"min_len": 0}, "need 1 <= min_len <= max_len, got min_len 0 and max_len None"),
        ({"min_len": 3, "max_len": 2}, "need 1 <= min_len <= max_len, got min_len 3 and max_len 2"),
        ({"unseen_char_prob": 0}, "unseen_char_prob must be above 1e-37 and at most 1, got 0"),
        ({"unseen_char_prob": 1.5}, "unseen_char_prob must be above 1e-37 and at most 1, got 1.5"),
        ({"unseen_char_prob": float("nan")}, "unseen_char_prob must be above 1e-37 and at most 1, got nan"),
        (
            {"boundaries": True, "start_weight": 0.0},
            "start_weight and end_weight must be finite numbers above 0, got 0.0 and 1.0",
        ),
        (
            {"boundaries": True, "end_weight": float("inf")},
            "start_weight and end_weight must be finite numbers above 0, got 1.0 and inf",
        ),
        ({"inner_boundaries": True}, "inner_boundaries, start_weight and end_weight need boundaries=True"),
        ({"start_weight": 2.0}, "inner_boundaries, start_weight and end_weight need boundaries=True"),
        ({"end_weight": 2.0}, "inner_boundaries, start_weight and end_weight need boundaries=True"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(InputError) as error:
        Spelling(**settings)
    assert str(error.value) == message
