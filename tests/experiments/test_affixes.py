"""Guessing affixes and finding morphemes, by hand and against the paper's figures."""

import pytest

import pbos
from experiments import affixes, datasets
from experiments.datasets import AffixRow
from pbos.errors import InputError
from pbos.settings import Spelling
from pbos.words.subwords import Segmentation


@pytest.fixture(scope="module")
def segmenter(shared_data):
    return pbos.Segmenter.from_counts(shared_data / "unigram_freq.csv")


def test_affix_figures_of_the_paper(segmenter, shared_data):
    found = affixes.affix(segmenter, datasets.read_affixes(shared_data), repeats=100)
    assert [round(found.scores[kind].value, 3) for kind in ("precision", "recall", "f1")] == [0.861, 0.874, 0.829]
    assert found.main.low < 0.861 < found.main.high
    assert (found.details["words"], found.details["affixes"]) == (3546, 17)


def test_affix_on_a_small_set():
    rows = [AffixRow("-er", "bake", "baker"), AffixRow("re-", "bake", "rebaker"), AffixRow("-y", "cat", "caty")]
    segmenter = pbos.Segmenter.from_counts({"re": 10, "baker": 1, "rebake": 5})
    found = affixes.affix(segmenter, rows)
    assert found.details["words"] == 1  # "baker" contains one affix only, -y is dropped
    assert [score.value for score in found.scores.values()] == [1, 1, 1]
    with pytest.raises(InputError, match="no word contains two of the affixes"):
        affixes.affix(segmenter, rows[:1])


def test_morphemes_by_hand():
    class Cutting:
        def segment(self, many):
            cuts = {"unkind": "un kind", "kindly": "k indly", "kind": "kind", "reads": "reads"}
            return [[Segmentation(tuple(cuts[word].split()), 1.0)] for word in many]

    gold = {"unkind": [["u", "nkind"], ["un", "kind"]], "kindly": [["kind", "ly"]], "kind": [["kind"]]}
    found = affixes.morphemes(Cutting(), gold | {"reads": [["read", "s"]]}, repeats=10)
    precision, recall = (1 + 0 + 1 + 1) / 4, (1 + 0 + 1 + 0) / 4
    expected = {"f1": 2 * precision * recall / (precision + recall), "precision": precision, "recall": recall}
    assert {name: score.value for name, score in found.scores.items()} == pytest.approx(expected)
    with pytest.raises(InputError, match="there are no words to segment"):
        affixes.morphemes(Cutting(), {})


def test_with_boundaries_an_affix_is_looked_for_at_its_end_of_the_word():
    class Weighing:
        def __init__(self, boundaries):
            self.spelling = Spelling(boundaries=boundaries)

        def weights(self, word):
            return [("er", 0.4), ("<er", 0.3), ("<re", 0.15), ("re", 0.1), ("er>", 0.05)]

    questions, names = affixes.affix_questions([AffixRow("-er", "ererer", "rererer"), AffixRow("re-", "er", "rerer")])
    assert names == ["-er", "re-"]
    assert [names[affixes.guess(Weighing(True), question, names)] for question in questions] == ["re-", "re-"]
    assert [names[affixes.guess(Weighing(False), question, names)] for question in questions] == ["-er", "-er"]
