"""The included English model: small, and as good as the results say."""

import pytest

import pbos
from pbos.model import ENGLISH


def test_size():
    assert sum(file.stat().st_size for file in ENGLISH.iterdir()) <= 10_000_000


def test_quality(shared_data):
    """Spearman x 100 by the paper's protocol; the committed model has 71.0, 47.0, 15.6 and 49.8."""
    pytest.importorskip("scipy")
    import similarity

    found = similarity.scores(pbos.load(), shared_data)
    least = {"WS353": 70, "RareWord": 46, "Card-660": 14.6, "SimLex": 48.8}
    assert {name for name in least if found[name] < least[name]} == set(), found


def test_any_string_gets_a_vector():
    model = pbos.load()
    for word in ["unfriendliest", "covfefe", "x", "don't", "naïve", "COVID-19", "a" * 1000]:
        assert model[word].any(), word
    assert model.neighbors("unfriendliest")[0][0] == "unfriendly"
