"""The default preset against the textbook, and the share of their own vectors that training words keep."""

import json
from collections import defaultdict

import numpy as np
import oracle
import pytest

import pbos
from pbos.training.fit import LAMS


def rows_of(model):
    return oracle.rows_of(model.index)


def probs_of(model):
    return oracle.probs_of(model.index)


# The default ----------------------------------------------------------------------------------------------------------

WORDS = (
    *("high", "higher", "highest", "low", "lower", "lowest", "slow", "slower", "read", "reader", "reads", "rereads"),
    *("x-ray", "ray", "rays", "x", "well-read", "well", "banana", "bananas", "don't", "do", "naïve", "हिन्दी", "art"),
)
OTHERS = ("hi-low", "slowest", "nana", "readers", "-", "हि", "Ω", "high-ray", "do")


class ByHand:
    """The default preset from dictionaries: probabilities, weights, merged columns, a dense solution, own vectors.

    With fewer rounds of EM, as enumerating all segmentations takes long.
    """

    def __init__(self, words, targets, lam, share=None, own_share=None, max_vectors=None, em_rounds=3):
        self.texts = [oracle.written(word, True, True)[0] for word in words]
        self.targets, self.lam, self.own_share = targets, lam, own_share
        ranks = np.arange(1, len(words) + 1)
        self.reliability = 1 / (1 + ranks / (int(share * len(words)) + 1)) if share else np.ones(len(words))
        self.reliability /= self.reliability.mean()
        table = oracle.count(dict.fromkeys(self.texts, 1.0))
        for subword in table:
            if len(subword) > 1 and sum(subword in text for text in self.texts) < 2:
                table[subword] = 0.0
        total = sum(table.values())
        table = {subword: p / total for subword, p in table.items()}
        self.table = oracle.em(dict.fromkeys(self.texts, 1.0), table, em_rounds, 0.01, marks=True)
        self.solve(set(table) - {"<", ">"})
        if max_vectors is not None:
            self.select(max_vectors)
        if own_share is not None:
            self.keep_own_vectors()

    def solve(self, with_vector):
        groups = defaultdict(list)
        for subword in with_vector:
            whole = self.own_share is not None and subword in self.texts
            groups[tuple(subword in text for text in self.texts), whole].append(subword)
        self.rows = {subword: row for row, group in enumerate(groups.values()) for subword in group}
        self.matrix = np.array([self.weigh(text) for text in self.texts])
        penalty = np.zeros(len(groups))
        for subword, row in self.rows.items():
            penalty[row] += (4 if subword[0] == "<" else 1) * (2 if subword[-1] == ">" else 1)
        weighted = self.matrix.T * self.reliability
        left = weighted @ self.matrix + self.lam * np.diag(penalty)
        self.vectors = np.linalg.solve(left, weighted @ self.targets)

    def select(self, n):
        """Keep the vectors that add most and, up to a quarter, those of words that are far off without their own."""
        squares = (self.matrix**2).sum(axis=0) * (self.vectors**2).sum(axis=1)
        rows = self.rows
        own = np.array([-1 if self.own_share is None else rows.get(text, -1) for text in self.texts])
        n_own = min(n // 4, (own >= 0).sum())
        kept = set(np.argsort(-squares)[: n - n_own].tolist())
        if n_own:
            lam, reliability = self.lam, self.reliability
            self.lam, self.reliability = 0.003, np.ones(len(own))
            self.solve({subword for subword, row in rows.items() if row in kept})
            self.lam, self.reliability = lam, reliability
            found, given = self.matrix @ self.vectors, self.targets
            cosines = (found * given).sum(axis=1) / np.linalg.norm(found, axis=1) / np.linalg.norm(given, axis=1)
            lost = np.where(own < 0, 0, (1 - np.nan_to_num(cosines)) / np.sqrt(np.arange(len(own)) + len(own) / 20))
            kept |= set(own[np.argsort(-lost)[:n_own]].tolist())
        self.solve({subword for subword, row in rows.items() if row in kept})
        self.own_share = None if self.own_share is None else 1

    def keep_own_vectors(self):
        """Give words s + share (v - s), where s is the sum of what they share with others; v if that is nothing."""
        shared = (self.matrix > 0).sum(axis=0) > 1
        for text, row, given in zip(self.texts, self.matrix, self.targets, strict=True):
            own = self.rows.get(text)
            if own is not None and not shared[own]:
                composed = row[shared] @ self.vectors[shared]
                wanted = composed + (self.own_share if row[shared].sum() > 1e-4 else 1) * (given - composed)
                self.vectors[own] = 0
                self.vectors[own] = (wanted - row @ self.vectors) / row[own]

    def weigh(self, text):
        row = np.zeros(max(self.rows.values()) + 1)
        table = {s: p for s, p in self.table.items() if s in self.rows or len(s) == 1}
        for subword, weight in oracle.span_weights(text, table, self.rows, 0.01, "both", 4, 2).items():
            row[self.rows[subword]] += weight
        return row

    def embed(self, words):
        return np.array([self.weigh(oracle.written(word, True, True)[0]) @ self.vectors for word in words])


@pytest.mark.parametrize(("max_vectors", "lam"), [(None, 0.01), (40, 0.01), (12, 0.001), (1, 0.1)])
@pytest.mark.parametrize(("share", "own_share"), [(None, None), (0.3, None), (None, 1.0), (0.1, 0.25), (None, 0.0)])
def test_the_default_equals_the_textbook(max_vectors, lam, share, own_share, tight):
    targets = np.random.default_rng(2).normal(size=(len(WORDS), 5)).astype(np.float32)
    expected = ByHand(WORDS, targets, lam, share, own_share, max_vectors)
    settings = {"reliability": share or "even", "own_share": "fitted" if own_share is None else own_share}
    model = pbos.train((WORDS, targets), lam=lam, max_vectors=max_vectors, round_probs=False, em_rounds=3, **settings)
    probs, rows = probs_of(model), rows_of(model)
    least = 1e-11 * max(expected.table.values())
    assert {s for s, p in expected.table.items() if p > least} <= probs.keys()
    kept = {s: p for s, p in probs.items() if p > 0}
    assert kept == pytest.approx({s: expected.table[s] for s in kept}, rel=1e-4, abs=1e-37)
    assert rows.keys() == expected.rows.keys()
    assert len(model.subword_vectors) == len(expected.vectors) <= (max_vectors or np.inf)
    trained = model.subword_vectors.to_float32()
    for subword, row in expected.rows.items():
        assert trained[rows[subword]] == pytest.approx(expected.vectors[row], abs=1e-4), subword
    assert model.embed([*WORDS, *OTHERS]) == pytest.approx(expected.embed([*WORDS, *OTHERS]), abs=1e-4)


def test_rounded_probabilities_are_near_and_few(real):
    vectors, _ = real
    exact, rounded = (probs_of(pbos.train(vectors, lam=1, em_rounds=2, round_probs=to)) for to in (False, True))
    assert exact.keys() == rounded.keys()
    assert len(set(rounded.values())) <= 256 < len(set(exact.values()))
    least = 1e-12 * max(exact.values())
    for subword, p in exact.items():
        assert rounded[subword] == pytest.approx(max(p, least) if p else 0, rel=0.06), subword


def test_what_was_chosen_and_tried_is_reported(real, tmp_path):
    vectors, _ = real
    model = pbos.train(vectors)
    training = model.info["training"]
    assert {"0.003", "0.001", "0.01", "0.1", "0.03"} & training["tried"].keys()
    assert (training["lam"] in LAMS, training["reliability"]) == (True, "even")
    assert f"{training['lam']:g}" in training["tried"]
    assert [model.info[name] for name in ("lam", "reliability", "own_share")] == ["auto", "auto", 0.3]
    assert 0 <= training["excess"] <= 0.001
    model.save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    assert config["info"]["training"] == training
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8").splitlines()
    tried = "; ".join(f"{name}: {score}" for name, score in training["tried"].items())
    facts = f"lam: {training['lam']}", f"excess: {training['excess']}", "seed: 0", "solver: ridge"
    for line in (*facts, "reliability: even", "own_share: 0.3"):
        assert card.count(f"- {line}") == 1
    assert f"- cosine of held-out words by lam, reliability: {tried}" in card


def test_given_settings_are_used_and_nothing_tried(real):
    vectors, _ = real
    model = pbos.train(vectors, lam=2, reliability=0.2, own_share=0.5)
    training = model.info["training"]
    assert (training["lam"], training["reliability"], model.info["own_share"]) == (2, 0.2, 0.5)
    assert "tried" not in training
    assert "by lam" not in model.card()


def test_one_word_is_enough():
    model = pbos.train((["ab"], np.array([[3.0, 4.0]])))
    assert model["ab"] == pytest.approx([3, 4])
    assert "tried" not in model.info["training"]


@pytest.mark.parametrize("solver", ["ridge", "sgd"])
def test_words_may_have_no_weights(solver):
    """Only single letters have a probability here, and only longer subwords have a vector."""
    words = ["abc", "bcd", "cde"]
    model = pbos.train((words, np.eye(3)), preset="pbos", min_len=3, min_prob_words=5, solver=solver)
    assert not model.embed(words).any()


def test_without_boundaries(real):
    vectors, _ = real
    model = pbos.train(vectors, boundaries=False, lam=1)
    assert not any(mark in subword for subword in model.index.strings() for mark in "<>")


# Own vectors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{}, {"merge": False}, {"weighting": "posterior", "min_prob_words": 1}, {"reliability": 0.1}]
)
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_training_words_keep_a_share_of_their_vectors(real, share, settings):
    """Words are s + share (v - s), with s composed of the subwords that other training words have too."""
    vectors, _ = real
    fitted, model = (pbos.train(vectors, lam=0.01, own_share=own, **settings) for own in ("fitted", share))
    texts = [oracle.written(word, True, True)[0] for word in vectors.words]
    n_words = {subword: sum(subword in text for text in texts) for subword in rows_of(model)}
    trained = model.subword_vectors.to_float32()
    kept = 0
    for word, text in zip(vectors.words, texts, strict=True):
        own = dict(model.weights(word))
        if text not in own or own[text] < 1e-3 or n_words[text] > 1:
            continue
        shared = sum(weight * trained[rows_of(model)[s]] for s, weight in own.items() if n_words[s] > 1)
        part = share if sum(weight for s, weight in own.items() if n_words[s] > 1) > 1e-4 else 1
        assert model[word] == pytest.approx(shared + part * (vectors[word] - shared), abs=2e-4), word
        kept += 1
    assert kept > (50 if settings.get("weighting") == "posterior" else 140)
    if settings == {"merge": False}:  # the vectors that words share are those of the regression
        rows = [row for subword, row in rows_of(model).items() if n_words[subword] > 1]
        assert np.array_equal(trained[rows], fitted.subword_vectors.to_float32()[rows])


def test_a_share_of_1_gives_the_given_vectors_back(real):
    vectors, _ = real
    model = pbos.train(vectors, own_share=1)
    for word, vector in zip(vectors.words, vectors.vectors, strict=True):
        if not any(word in other.replace("'", "-").split("-") for other in vectors.words if other != word):
            assert model[word] == pytest.approx(vector, abs=1e-4), word


def test_parts_of_other_words_stay_as_they_are():
    """`car` has no vector for itself alone, because `car-bomb` contains <car> too."""
    words = ["car", "bomb", "car-bomb", "cart", "bombs", "tar"]
    targets = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    settings = {"lam": 0.1, "reliability": "even"}
    fitted = pbos.train((words, targets), **settings, own_share="fitted", merge=False)
    model = pbos.train((words, targets), **settings, own_share=1.0, merge=False)
    for word, vector in zip(words, targets, strict=True):
        expected = fitted[word] if word in ("car", "bomb") else vector
        assert model[word] == pytest.approx(expected, abs=1e-5), word


@pytest.mark.parametrize(
    "settings", [{"max_len": 4}, {"min_vector_words": 2}, {"min_len": 6, "max_len": 7}, {"max_vectors": 60}]
)
def test_words_may_have_no_vector_of_their_own(real, settings):
    vectors, _ = real
    model = pbos.train(vectors, own_share=1.0, **settings)
    texts = [oracle.written(word, True, True)[0] for word in vectors.words]
    assert not set(texts) <= rows_of(model).keys()
    assert np.isfinite(model.embed([*vectors.words, "unheard-of"])).all()
