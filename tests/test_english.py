"""The embedded model: small, and good enough to be shown."""

import similarity

import pbos
from pbos.model import EMBEDDED


def test_size():
    assert sum(file.stat().st_size for file in EMBEDDED.iterdir()) <= 10_000_000


def test_quality(shared_data):
    """Spearman x 100 on the paper's benchmarks, by the paper's protocol."""
    found = similarity.scores(pbos.load(), shared_data)
    assert found["WS353"] >= 70
    assert found["RareWord"] >= 46
    assert found["Card-660"] >= 14.5
    assert found["SimLex"] >= 49


def test_any_string_gets_a_vector():
    model = pbos.load()
    for word in ["unfriendliest", "covfefe", "x", "don't", "naïve", "COVID-19", "a" * 1000]:
        assert model[word].any(), word
    assert model.neighbors("unfriendliest")[0][0] == "unfriendly"
