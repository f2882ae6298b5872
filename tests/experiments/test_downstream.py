"""The tasks of results/tasks.md: entities, intervals, misspellings, the network; on data small enough to check."""

import numpy as np
import pytest
from rapidfuzz.distance import OSA
from sklearn.metrics import f1_score

from experiments.downstream import measures, network, rivals, scores, sources
from pbos import WordVectors

RANDOM = np.random.default_rng(0)
TAGS = ["O", "B-per", "I-per", "B-loc", "I-loc"]


def spans_by_hand(tags):
    """conlleval's rule, one tag after the other."""
    found, first, kind = [], None, None
    for place, tag in enumerate([*tags, "O"]):
        goes_on = tag[:1] == "I" and tag[2:] == kind
        if first is not None and not goes_on:
            found.append((first, place, kind))
            first = kind = None
        if tag != "O" and not goes_on:
            first, kind = place, tag[2:]
    return set(found)


def test_spans_are_those_of_conlleval():
    for _ in range(300):
        tags = RANDOM.choice(TAGS, RANDOM.integers(1, 9)).tolist()
        assert scores.spans(tags) == spans_by_hand(tags)


def test_entities_are_counted_by_their_unknown_words():
    words = ["Ann", "saw", "Zorgon", "City", "twice"]
    wanted, got = ["B-per", "O", "B-loc", "I-loc", "O"], ["B-per", "O", "B-loc", "O", "B-loc"]
    every, unknown, known = scores.entity_counts(words, wanted, got, {"Zorgon"})
    assert (every, unknown, known) == ([1, 3, 2], [0, 1, 1], [1, 2, 1])


def test_words_are_counted_right_if_their_tag_is():
    every, unknown, known = scores.word_counts(["a", "zorgon", "is"], ["D", "N", "V"], ["D", "V", "V"], {"zorgon"})
    assert (every, unknown, known) == ([2, 3, 3], [0, 1, 1], [2, 2, 2])


def test_f1_is_that_of_scikit_learn_and_accuracy_for_one_answer_each():
    wanted, got = RANDOM.integers(0, 2, (2, 200))
    counts = np.array([(wanted & got).sum(), got.sum(), wanted.sum()])
    assert scores.f1(counts) == pytest.approx(100 * f1_score(wanted, got))
    right = (wanted == got).astype(float)
    one = np.stack([right, np.ones(200), np.ones(200)], axis=-1)[None]
    assert scores.draws(one)[0] == pytest.approx(100 * right.mean())


def test_intervals_are_about_those_of_the_normal_distribution():
    right = (RANDOM.random((1, 2000)) < 0.8).astype(float)
    ones = np.ones_like(right)
    found = scores.score(scores.draws(np.stack([right, ones, ones], axis=-1)))
    half = 196 * np.sqrt(0.8 * 0.2 / 2000)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.15)


def test_the_same_draws_for_all_make_differences_of_equals_zero():
    counts = RANDOM.integers(0, 3, (5, 50, 3)).astype(float)
    assert not (scores.draws(counts) - scores.draws(counts.copy())).any()


def test_misspellings_on_purpose_are_one_edit_away():
    words = ["because", "zip", "at", "mississippi"]
    for word in words * 50:
        assert OSA.distance(word, rivals.misspelled(word, RANDOM)) in (0, 1)  # 0: two equal letters swapped


def test_misspelled_rows_follow_the_table_and_have_the_vectors_of_right_words():
    words = ["because", "people", "government", "x1"]
    table = WordVectors(words, RANDOM.normal(size=(4, 3)))
    made = rivals.with_typos(table, 1.0)
    assert made.words[:4] == words
    assert len(made) == 8
    for word, vector in zip(made.words[4:], made.vectors[4:], strict=True):
        right = table.words[int((table.vectors == vector).all(axis=1).argmax())]
        assert OSA.distance(word, right) == 1


@pytest.mark.parametrize("pools", [False, True])
def test_the_network_learns_what_a_word_says(pools):
    vectors = np.concatenate([np.zeros((1, 4)), RANDOM.normal(size=(20, 4))]).astype(np.float32)
    ids = [RANDOM.integers(1, 21, RANDOM.integers(1, 7)) for _ in range(300)]
    labels = [np.array([int((one > 10).any())]) if pools else (one > 10).astype(int) for one in ids]
    settings = network.TEXTS._replace(lr=1e-2, epochs=15)
    *_, learned = network.learned(vectors, ids, labels, 2, settings, 0, pools)
    right = [one == other for one, other in zip(network.guessed(learned, ids), labels, strict=True)]
    assert np.concatenate(right).mean() > 0.9


def test_batches_have_each_sentence_once():
    ids = [np.ones(n, int) for n in RANDOM.integers(1, 30, 100)]
    for random in (None, RANDOM):
        assert sorted(np.concatenate(network.batches(ids, random))) == list(range(100))


def test_reranking_puts_the_nearest_spelling_first():
    words = ["cat", "receive", "receipt", "deceive"]
    ranks = measures.reranked(["recieve"], [1], np.array([[3, 2, 1]]), words)
    assert ranks == [1.0]
    assert measures.reranked(["recieve"], [0], np.array([[3, 2, 1]]), words) == [np.inf]


def test_texts_are_read_with_their_labels():
    assert sources.labeled_last("a good film\t1\n") == [(["a", "good", "film"], ["1"])]
    assert sources.labeled_first("1 a\x85film\n\n0 \n") == [(["a", "film"], ["1"])]  # \x85: an ellipsis in cp1252
