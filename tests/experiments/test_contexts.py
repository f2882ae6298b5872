"""The helpers of the experiments about contexts, beside plain loops."""

import numpy as np
import pytest

from experiments import context_vectors
from experiments.context_tasks import near_terms
from experiments.context_vectors import Text
from experiments.contexts import without
from pbos import WordVectors

pytestmark = pytest.mark.core
LINES = ["a b c d a", "e", "b a f g"]


def test_a_sentence_ends_at_the_line_and_at_the_same_word():
    text = Text("\n".join(LINES))
    words = " ".join(LINES).split()
    sentences = [text.sentence(at) for at, word in enumerate(words) if word == "a"]
    assert sentences == ["a b c d", "b c d a", "b a f g"]
    assert text.sentence(words.index("e")) == "e"


def test_a_sentence_has_at_most_so_many_words_on_each_side(monkeypatch):
    monkeypatch.setattr(context_vectors, "REACH", 2)
    assert Text("a b c d e f g").sentence(3) == "b c d e f"


def test_occurrences_are_drawn_without_replacement():
    text, random = Text("\n".join(LINES)), np.random.default_rng(0)
    assert text.occurrences("a", None, random).tolist() == [0, 4, 7]
    drawn = text.occurrences("a", 2, random).tolist()
    assert len(set(drawn)) == 2 and set(drawn) <= {0, 4, 7}


@pytest.mark.parametrize("reach", [1, 3])
def test_mean_windows_are_those_of_a_plain_loop(monkeypatch, reach):
    monkeypatch.setattr(context_vectors, "WINDOW", reach)
    random = np.random.default_rng(1)
    lines = [random.choice(list("abcdef"), size).tolist() for size in (7, 1, 12)]
    text = Text("\n".join(" ".join(line) for line in lines))
    vectors = np.vstack([random.standard_normal((len(text.words), 4)), np.zeros(4)]).astype(np.float32)
    of = dict(zip(text.words, vectors, strict=False))
    found = text.mean_windows(text.order, vectors)
    for place, word in enumerate(text.words):
        sums = [
            sum((of[other] for other in line[max(at - reach, 0) : at] + line[at + 1 : at + 1 + reach]), np.zeros(4))
            for line in lines
            for at, here in enumerate(line)
            if here == word
        ]
        assert np.allclose(found[place], np.mean(sums, axis=0), atol=1e-5)


def test_without_a_direction_vectors_are_at_right_angles_to_it():
    direction = np.array([0.6, 0.8], np.float32)
    assert np.allclose(without(np.array([[3, 4], [1, 0]], np.float32), direction), [[0, 0], [0.64, -0.48]], atol=1e-6)


def test_a_term_of_several_words_is_their_sum():
    table = WordVectors(["renal", "failure", "pain"], np.array([[2, 0], [0, 3], [1, 1]], np.float32))
    pairs = [("renal failure", "pain", 1.0), ("renal", "lost", 1.0)]
    assert near_terms(table, pairs, {}).tolist() == pytest.approx([1, 0])
    assert near_terms(table, pairs, {"lost": np.array([1, 0], np.float32)}).tolist() == pytest.approx([1, 1])
