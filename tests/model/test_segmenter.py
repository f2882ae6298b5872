"""The segmenter: its settings against dictionaries, one word and many, seeds, files and copies."""

import copy
import itertools
import pickle

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos import InputError, ModelError, Segmenter
from pbos.words.subwords import SMALL_CHUNK

WORDS = {"high": 60, "higher": 20, "highest": 5, "er": 20, "lower": 7, "never": 0}
few_words = st.dictionaries(
    st.text("abé", min_size=1, max_size=5), st.integers(0, 1000), min_size=1, max_size=10
).filter(lambda words: any(words.values()))


def probs_of(segmenter):
    return oracle.probs_of(segmenter.index)


def test_the_defaults_are_plain_counts():
    assert probs_of(Segmenter.from_counts(WORDS)) == pytest.approx(oracle.count(WORDS), rel=1e-6)


def test_types_count_every_word_that_occurs_once():
    found = Segmenter.from_counts(WORDS, types=True, em_rounds=1)
    once = {word: min(n, 1) for word, n in WORDS.items()}
    assert probs_of(found) == probs_of(Segmenter.from_counts(once, em_rounds=1))


def test_types_are_counted_after_normalization():
    found = Segmenter.from_counts({"High": 5, "high": 3, "er": 1}, types=True, normalization="casefold")
    assert probs_of(found) == probs_of(Segmenter.from_counts({"high": 1, "er": 1}))


def test_min_prob_words_drops_rare_subwords():
    found = probs_of(Segmenter.from_counts(WORDS, min_prob_words=2))
    table = oracle.count(WORDS)
    n_words = {s: sum(s in word for word in WORDS) for s in table}
    assert set(found) == {s for s, n in n_words.items() if table[s] > 0 and (n >= 2 or len(s) == 1)}
    assert {"t", "s", "l", "o", "high", "highe"} <= set(found)
    assert sum(found.values()) == pytest.approx(1)


@given(few_words, st.booleans(), st.booleans(), st.integers(1, 3), st.sampled_from([0, 1, 2, 7]))
def test_all_settings_together(words, boundaries, types, min_prob_words, em_rounds):
    """Count, drop, fit, one after the other."""
    settings = {"boundaries": boundaries, "types": types, "min_prob_words": min_prob_words, "em_rounds": em_rounds}
    written = {f"<{word}>" if boundaries else word: float(n > 0) if types else n for word, n in words.items()}
    table = oracle.count(written)
    kept = {s: p for s, p in table.items() if len(s) == 1 or sum(s in word for word in written) >= min_prob_words}
    if max(map(len, table)) > 1 and max(map(len, kept)) == 1:
        with pytest.raises(InputError, match="leaves single characters only"):
            Segmenter.from_counts(words, **settings)
        return
    kept = {s: p / sum(kept.values()) for s, p in kept.items() if p > 0 or min_prob_words == 1}
    expected = oracle.em(written, kept, em_rounds, 0.01, marks=boundaries)
    assert probs_of(Segmenter.from_counts(words, **settings)) == pytest.approx(expected, rel=1e-5, abs=1e-37)


def test_em_finds_the_pieces_words_share():
    stems, ends = ("walk", "jump", "call", "help"), ("", "s", "ed", "ing")
    words = dict.fromkeys((stem + end for stem in stems for end in ends), 1)
    segmenter = Segmenter.from_counts(words, boundaries=True, types=True, min_prob_words=2, em_rounds=2)
    assert segmenter.segment("jumping")[0].pieces == ("jump", "ing")
    assert segmenter.segment("helped")[0].pieces == ("help", "ed")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalization": "x"}, "unknown normalization 'x'; choose one of: NFC, NFKC, lower, casefold, none, auto"),
        ({"min_prob_words": 0}, "min_prob_words must be at least 1, got 0"),
        ({"em_rounds": -1}, "em_rounds must be at least 0, got -1"),
        ({"min_prob_words": 99}, "min_prob_words 99 leaves single characters only; use a smaller number or more words"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        Segmenter.from_counts(WORDS, **settings)


# One word and many ----------------------------------------------------------------------------------------------------

MANY = ["higher", "lower", "h", "ray-x", "東京", "<odd>", "a.b.c", "highlow" * 40]


@pytest.fixture(scope="module", params=["plain", "marks", "model"])
def segmenter(request):
    if request.param == "model":
        return Segmenter(pbos.load().index, pbos.load().spelling)
    counts = {"high": 6, "higher": 2, "er": 2, "low": 5, "x-ray": 1}
    return Segmenter.from_counts(counts, boundaries=request.param == "marks")


@pytest.mark.parametrize(
    "method",
    [
        lambda s, w: s.segment(w),
        lambda s, w: s.segment(w, 4),
        lambda s, w: s.weights(w),
        lambda s, w: s.entropy(w),
        lambda s, w: s.coverage(w),
    ],
    ids=["segment", "segment 4", "weights", "entropy", "coverage"],
)
def test_many_words_answer_as_each_alone(segmenter, method):
    assert method(segmenter, MANY) == [method(segmenter, word) for word in MANY]
    assert method(segmenter, np.array(MANY[:2])) == [method(segmenter, word) for word in MANY[:2]]
    assert method(segmenter, []) == []


def test_lattices_and_explanations_of_one_word_and_many(segmenter):
    words = MANY[:-1]
    assert [one.spans for one in segmenter.lattice(words)] == [segmenter.lattice(word).spans for word in words]
    many = [one.to_dict() for one in segmenter.explain(words, 3)]
    assert many == [segmenter.explain(word, 3).to_dict() for word in words]


@pytest.mark.parametrize("n", [1, 3])
def test_long_lists_do_not_depend_on_threads(segmenter, n):
    expected = [segmenter.segment(word, n) for word in MANY]
    for threads in (None, 1, 3):
        assert segmenter.segment(MANY * 700, n, threads=threads) == expected * 700


# Seeds ----------------------------------------------------------------------------------------------------------------


def test_one_word_is_sampled_like_a_list_of_one(segmenter):
    for word in MANY:
        assert segmenter.sample(word, seed=1) == segmenter.sample([word], seed=1)[0]
        assert segmenter.sample(word, 5, seed=7) == segmenter.sample([word], 5, seed=7)[0]
        assert segmenter.sample(word, 5, seed=7) == segmenter.lattice(word).sample(5, seed=7)


def test_samples_do_not_depend_on_threads_or_batches(segmenter):
    words = MANY * 200
    expected = segmenter.sample(words, 2, seed=3)
    for threads in (1, 2, 5):
        assert segmenter.sample(words, 2, seed=3, threads=threads) == expected
    for size in (SMALL_CHUNK, 3 * SMALL_CHUNK):
        batches = [
            segmenter.subwords.sample(words[first : first + size], 2, seed=3, first=first)
            for first in range(0, len(words), size)
        ]
        assert [samples for batch in batches for samples in batch] == expected
    assert segmenter.sample(words, 2, seed=4) != expected
    assert segmenter.sample(words, 2) != segmenter.sample(words, 2)  # without a seed, every call draws anew


# Files and copies -----------------------------------------------------------------------------------------------------


def assert_same(found, expected):
    assert type(found) is Segmenter
    assert found.spelling == expected.spelling
    for one, other in zip(found.index.arrays, expected.index.arrays, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert found.segment(MANY, 3) == expected.segment(MANY, 3)
    assert found.weights(MANY) == expected.weights(MANY)
    assert repr(found) == repr(expected)


def test_saved_and_loaded(segmenter, tmp_path):
    segmenter.save(tmp_path / "s")
    loaded = Segmenter.load(tmp_path / "s")
    assert_same(loaded, segmenter)
    assert not any(array.flags.owndata for array in loaded.index.arrays)  # mapped, not copied
    loaded.save(tmp_path / "again")
    for file in (tmp_path / "s").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


def test_a_segmenter_folder_is_not_a_model(tmp_path):
    Segmenter.from_counts(WORDS).save(tmp_path / "s")
    with pytest.raises(ModelError, match=r"s is a segmenter, which has no vectors; load it with pbos\.Segmenter\.load"):
        pbos.load(tmp_path / "s")


def test_a_model_folder_is_a_segmenter_too(tmp_path):
    model = pbos.train({"high": [1.0], "higher": [2.0], "x-ray": [3.0]}, lam=0.1)
    model.save(tmp_path / "m")
    loaded = Segmenter.load(tmp_path / "m")
    assert loaded.segment(MANY, 3) == model.segment(MANY, 3)
    assert loaded.weights(MANY) == model.weights(MANY)


@pytest.mark.parametrize("clone", [lambda s: pickle.loads(pickle.dumps(s)), copy.copy, copy.deepcopy])
def test_copies(segmenter, clone):
    assert_same(clone(segmenter), segmenter)


def test_the_pickle_does_not_grow_with_use():
    segmenter = Segmenter.from_counts(WORDS, boundaries=True)
    before = pickle.dumps(segmenter)
    segmenter.segment(MANY, 3)
    segmenter.sample(MANY, 3)
    segmenter.weights(MANY)
    segmenter.explain(MANY)
    assert pickle.dumps(segmenter) == before


# Large alphabets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 0x600])
def test_spans_over_more_letters_than_a_record_has_bits(first):
    """The most frequent letters are in the middle, so that others come before and after the window."""
    random = np.random.default_rng(first)
    letters = [chr(0x4E00 + first + i) for i in range(400)]

    def word():
        return "".join(letters[int(i)] for i in np.clip(random.normal(200, 60, random.integers(1, 7)), 0, 399))

    counts = {word(): 1 for _ in range(3000)}
    segmenter = Segmenter.from_counts(counts)
    known = {w[i:j] for w in counts for i in range(len(w)) for j in range(i + 1, len(w) + 1)}
    for _ in range(300):
        w = word() + "?" + word()
        expected = {(i, j) for i in range(len(w)) for j in range(i + 1, len(w) + 1) if j == i + 1 or w[i:j] in known}
        assert {(span.start, span.end) for span in segmenter.lattice(w).spans} == expected


def boundary_f1(segmentations, morphemes):
    """F1 of the inner boundaries of all words, against the morphemes that the words were made of."""
    hits = found = gold = 0
    for pieces, parts in zip(segmentations, morphemes.values(), strict=True):
        ours, theirs = (set(itertools.accumulate(map(len, some[:-1]))) for some in (pieces, parts))
        hits, found, gold = hits + len(ours & theirs), found + len(ours), gold + len(theirs)
    return 2 * hits / (found + gold)


def test_the_settings_for_affixes_cut_closer_to_morphemes(small_counts, small_morphemes):
    """As the docstring of from_counts says: closer than the paper's settings, and than a cut after every letter."""
    closer = Segmenter.from_counts(small_counts, boundaries=True, types=True, min_prob_words=2, em_rounds=10)
    ours, papers = (
        boundary_f1([best.pieces for (best,) in segmenter.segment(list(small_morphemes))], small_morphemes)
        for segmenter in (closer, Segmenter.from_counts(small_counts))
    )
    assert ours > max(papers, boundary_f1(map(list, small_morphemes), small_morphemes))
