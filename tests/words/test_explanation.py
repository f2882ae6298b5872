"""Explanations and drawings: numbers against the enumeration of all segmentations, the drawing parsed as XML."""

import json
import pickle
import unicodedata
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos import InputError, Segmenter
from pbos.words.lattice import letters, printable

SVG = "{http://www.w3.org/2000/svg}"
COUNTS = {"high": 60, "higher": 20, "er": 20}


@pytest.fixture(scope="module")
def model():
    return pbos.load()


def drawing(word, counts=COUNTS, **settings):
    return ET.fromstring(Segmenter.from_counts(counts, **settings).lattice(word).svg())


def written(root, kind):
    return [e for e in root.iter(f"{SVG}text") if e.get("class", "").split()[0] == kind]


def arcs(root):
    """Every arc as (left, right, width, is it on the best path)."""
    for path in root.iter(f"{SVG}path"):
        start, _, radii_and_end = path.get("d").partition(" A")
        right = float(radii_and_end.split()[-2])
        yield float(start[1:].split()[0]), right, float(path.get("stroke-width")), path.get("class") == "best"


# -- the object --------------------------------------------------------------------------------------------------------


def test_an_explanation_agrees_with_the_enumeration_of_all_segmentations():
    table = oracle.count(COUNTS)
    ways = oracle.enumerate_all("highher", table, 0.01)
    weights = oracle.weights("highher", table, set(table), 0.01)
    explanation = Segmenter.from_counts(COUNTS).explain("highher", n=2)
    best = sorted(ways, key=lambda pieces: -ways[pieces])[:2]
    assert [one.pieces for one in explanation.segmentations] == best
    assert [one.probability for one in explanation.segmentations] == pytest.approx([ways[pieces] for pieces in best])
    assert dict(explanation.weights) == pytest.approx(weights)
    assert explanation.entropy == pytest.approx(oracle.entropy("highher", table, 0.01))
    assert (explanation.word, explanation.coverage, explanation.neighbors) == ("highher", 1.0, [])
    data = json.loads(json.dumps(explanation.to_dict()))
    assert data.keys() == {"word", "read_as", "spelled", "segmentations", "weights", "spans", "entropy", "coverage"}
    assert [(tuple(one["pieces"]), one["probability"]) for one in data["segmentations"]] == explanation.segmentations
    assert [(one["subword"], one["weight"]) for one in data["weights"]] == explanation.weights
    assert_spans(data, ways)


def assert_spans(data, ways):
    """The posterior of each span is the probability of all ways to cut the spelled word that contain it."""
    for span in data["spans"]:
        assert span.keys() == {"start", "end", "subword", "prob", "posterior", "weight"}
        assert span["subword"] == data["spelled"][span["start"] : span["end"]]
        expected = sum(p for pieces, p in ways.items() if (span["start"], span["end"]) in places(pieces))
        assert span["posterior"] == pytest.approx(expected)
    assert sum(span["weight"] for span in data["spans"]) == pytest.approx(1)


def test_positions_are_in_the_word_with_its_marks():
    vectors = {"high": [1.0], "higher": [2.0], "x-ray": [3.0]}
    model = pbos.train(vectors, lam=0.1, normalization="casefold")
    data = json.loads(json.dumps(model.explain("HI-er", neighbors=1).to_dict()))
    assert (data["word"], data["spelled"], data["known"]) == ("HI-er", "<hi>-<er>", False)
    assert data.keys() >= {"known", "neighbors"}
    assert [one.keys() for one in data["neighbors"]] == [{"word", "cosine"}]
    assert not any(mark in piece for one in data["segmentations"] for piece in one["pieces"] for mark in "<>")
    assert_spans(data, oracle.enumerate_all("<hi>-<er>", oracle.probs_of(model.index), 0.01))
    assert model.explain("HIGH").to_dict()["known"]


def places(pieces):
    ends = [sum(map(len, pieces[: i + 1])) for i in range(len(pieces))]
    return set(zip([0, *ends], ends, strict=False))


def test_an_explanation_of_a_model_is_what_its_methods_say(model):
    word = "unfriendliest"
    explanation = model.explain(word, 4, neighbors=7)
    assert explanation.segmentations == model.segment(word, 4)
    assert explanation.weights == model.weights(word)
    assert explanation.coverage == model.coverage(word)
    assert explanation.entropy == model.entropy(word)
    assert explanation.neighbors == model.neighbors(word, 7)
    assert [(one["word"], one["cosine"]) for one in explanation.to_dict()["neighbors"]] == explanation.neighbors
    assert str(pickle.loads(pickle.dumps(explanation))) == str(explanation)
    assert repr(explanation).startswith("<Explanation 'unfriendliest': best un/friendli/est ")


def test_the_confidence_of_a_model_that_has_one(confident, small_vectors):
    for word in (small_vectors.words[1502], small_vectors.words[0], "ЖЖ"):
        explanation, confidence = confident.explain(word), float(confident.confidence([word])[0])
        assert explanation.confidence == pytest.approx(confidence, abs=1e-5)
        assert json.loads(json.dumps(explanation.to_dict()))["confidence"] == explanation.confidence
        assert str(explanation).splitlines()[0].endswith(f"   confidence {confidence:.2f}")
        assert f"confidence {confidence:.2f}</div>" in explanation._repr_html_()


def test_the_confidence_of_a_model_that_has_none():
    explanation = pbos.train({"high": [1.0], "higher": [2.0]}, lam=0.1).explain("highest")
    assert explanation.confidence is explanation.to_dict()["confidence"] is None
    assert "confidence" not in str(explanation) + explanation._repr_html_()


def test_a_word_without_a_known_subword_is_explained_too(model):
    explanation = model.explain("東京")
    assert (explanation.weights, explanation.neighbors, explanation.coverage) == ([], [], 0.0)
    assert "none: no known subword" in str(explanation)
    assert "none: no known subword" in explanation._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "word 0 is an empty string"),
        (("ab", 0), "n must be at least 1, got 0"),
        ((3,), "expected words"),
        ((["ab", None],), "word 1 is missing"),
    ],
)
def test_bad_input(model, arguments, message):
    with pytest.raises(InputError, match=message):
        explanation = model.explain(*arguments)
        str(explanation)


class Balanced(HTMLParser):
    """Checks that every tag is closed, in order, and collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.names = [], "", set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.names |= {tag, *(name for name, _ in attrs)}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_notebook_shows_drawing_and_bars_and_nothing_of_the_word_is_markup(model):
    for word in ("unfriendliest", "<script>alert(1)</script>", 'a"b&c'):
        explanation = model.explain(word)
        page = Balanced()
        page.feed(explanation._repr_html_())
        assert page.open == []
        assert "<script" not in explanation._repr_html_()
        assert explanation.svg() in explanation._repr_html_()
        for subword, weight in explanation.weights[:5]:
            assert f"{subword}{weight:.3f}" in page.text
        assert "nearest words" in page.text
        assert "color:" not in explanation._repr_html_()  # text has the color of the notebook, dark or light


def test_nothing_of_a_hostile_model_is_markup_in_a_notebook(model):
    words = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "]]><!--", "&lt;b&gt;", "a\u202e\x00b"]
    hostile = pbos.train((words, np.eye(5, dtype=np.float32)), lam=0.1)
    usual = Balanced()
    usual.feed(model.explain("HOUSES")._repr_html_())
    for explanation in hostile.explain([*words, *(f"{word}S" for word in words)]):
        page = Balanced()
        page.feed(explanation._repr_html_())
        assert page.open == [] and page.names <= usual.names
        for other, cosine in explanation.neighbors[:5]:
            assert f"{printable(other)}{cosine:.3f}" in page.text
        ET.fromstring(explanation.svg())


# -- the drawing -------------------------------------------------------------------------------------------------------


def test_arcs_are_as_wide_as_spans_are_probable_and_the_best_path_is_marked():
    table = oracle.count(COUNTS)
    ways = oracle.enumerate_all("higher", table, 0.01)
    best = max(ways, key=ways.get)
    root = drawing("higher")
    step = (max(right for _, right, _, _ in arcs(root)) - min(left for left, _, _, _ in arcs(root))) / len("higher")
    left = min(left for left, _, _, _ in arcs(root))
    drawn = {
        (round((a - left) / step), round((b - left) / step)): (width, is_best) for a, b, width, is_best in arcs(root)
    }
    posteriors = {}
    for pieces, probability in ways.items():
        for place in places(pieces):
            posteriors[place] = posteriors.get(place, 0) + probability
    assert set(drawn) == {place for place, posterior in posteriors.items() if posterior >= 0.005}
    assert {place for place, (_, is_best) in drawn.items() if is_best} == places(best)
    by_width = sorted(drawn, key=lambda place: drawn[place][0])
    assert [posteriors[place] for place in by_width] == pytest.approx(sorted(posteriors[place] for place in drawn))


def test_the_drawing_has_a_description():
    root = drawing("higher")
    best = Segmenter.from_counts(COUNTS).segment("higher")[0]
    assert root.get("role") == "img"
    assert f"Segmentations of higher: {best}" in root.get("aria-label")


def test_right_to_left_words():
    for word, rtl in (("سلام", True), ("שלום", True), ("peace", False), ("平和", False)):
        root = drawing(word, {word: 1})
        at = [float(e.get("x")) for e in written(root, "letter")]
        assert at == sorted(at, reverse=rtl)
        assert root.get("direction") == ("rtl" if rtl else "ltr")


def test_arabic_letters_keep_the_forms_they_have_inside_the_word():
    # Seen joins lam, lam joins alef; alef joins nothing after it, so meem stands alone.
    assert letters("سلام") == ["س\u200d", "\u200dل\u200d", "\u200dا", "م"]
    # A vowel mark between two letters does not part them.
    assert letters("سَل") == ["س\u200d", "◌َ", "\u200dل"]
    assert letters("שלום") == list("שלום")  # Hebrew letters do not join


def test_combining_marks_are_drawn_on_a_circle():
    assert letters("हि") == ["ह", "◌ि"]
    assert letters("e\u0301") == ["e", "◌\u0301"]


def test_markup_in_a_word_is_escaped():
    lattice = Segmenter.from_counts({"a<b": 2, "&": 1}).lattice("a<b&")
    root = ET.fromstring(lattice.svg())
    assert [element.text for element in written(root, "letter")] == list("a<b&")
    assert len(list(arcs(root))) == sum(span.posterior >= 0.005 for span in lattice.spans)
    assert lattice._repr_html_() == lattice.svg()
    assert "a<b&" in repr(lattice)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_any_word_can_be_drawn(word):
    segmenter = Segmenter.from_counts({"high": 2, "Жук": 1}, normalization="none", boundaries=True)
    root = ET.fromstring(segmenter.lattice(word).svg())
    shown = written(root, "letter")
    assert len(shown) == len(word)
    for element, character in zip(shown, word, strict=True):
        if unicodedata.category(character)[0] in "LN":
            assert element.text.strip("\u200d") == character


def test_a_long_word_fits_and_its_labels_do_not_overlap(model):
    root = ET.fromstring(model.lattice("pneumonoultramicroscopicsilicovolcanoconiosis").svg())
    assert float(root.get("width")) < 1200 and float(root.get("height")) < 200
    labels = written(root, "label")
    assert [e.text for e in labels if e.text.startswith("microscopic ")]
    for one in labels:
        for other in labels:
            if one is not other and one.get("y") == other.get("y"):
                room = 3 * (len(one.text) + len(other.text))  # a letter of 12 px is some 6 px wide
                assert abs(float(one.get("x")) - float(other.get("x"))) > room
