"""Settings and presets: one set of names and types, and errors that help."""

import subprocess
import sys
from dataclasses import fields
from typing import get_type_hints

import numpy as np
import pytest

import pbos
from pbos import InputError
from pbos.settings import PRESETS, Preset, Settings, Spelling

MARKS_NEED_BOUNDARIES = "inner_boundaries, start_weight and end_weight need boundaries=True"


def test_the_typed_keywords_are_the_settings():
    assert get_type_hints(Settings) == get_type_hints(Preset)
    assert list(get_type_hints(Settings)) == [one.name for one in fields(Preset)]
    assert not Settings.__required_keys__


def test_settings_import_no_numba():
    code = "import sys, pbos.settings; print('numba' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("heldot", "heldout"),
        ("epoch", "epochs"),
        ("thread", "threads"),
        ("normalisation", "normalization"),
        ("min_vector_word", "min_vector_words"),
        ("lamb", "lam"),
        ("keep_target", "keep_targets"),
    ],
)
def test_a_misspelled_keyword_suggests_the_nearest_parameter(name, nearest):
    with pytest.raises(InputError, match=f"^unknown setting '{name}'; did you mean '{nearest}'\\?$"):
        pbos.train((["ab"], np.eye(1)), **{name: 1})


def test_a_keyword_like_no_other_lists_the_settings():
    with pytest.raises(InputError, match="unknown setting 'zzzz'; the settings are: normalization, boundaries"):
        pbos.train((["ab"], np.eye(1)), zzzz=1)


def test_a_preset_with_changes():
    changed = Preset.named("bos", {"epochs": 3})
    assert {one.name for one in fields(Preset) if getattr(changed, one.name) != getattr(PRESETS["bos"], one.name)} == {
        "epochs"
    }
    assert changed.spelling == PRESETS["bos"].spelling
    with pytest.raises(InputError, match="unknown preset 'nope'; choose one of: default, pbos, pbos-n, bos"):
        Preset.named("nope", {})


def test_without_boundaries_the_settings_that_need_them_are_dropped():
    spelling = Preset.named("default", {"boundaries": False}).spelling
    assert (spelling.inner_boundaries, spelling.start_weight, spelling.end_weight) == (False, 1, 1)
    assert Preset.named("default", {"boundaries": False}).own_share == "fitted"
    with pytest.raises(InputError, match=MARKS_NEED_BOUNDARIES):
        Preset.named("default", {"boundaries": False, "start_weight": 2.0})


def test_with_sgd_the_settings_of_ridge_regression_are_dropped():
    preset = Preset.named("default", {"solver": "sgd"})
    assert (preset.reliability, preset.own_share, preset.confidence) == ("even", "fitted", False)
    with pytest.raises(InputError, match="confidence need"):
        Preset.named("default", {"solver": "sgd", "confidence": True})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"normalization": "nfd"},
            "unknown normalization 'nfd'; choose one of: NFC, NFKC, lower, casefold, none, auto",
        ),
        ({"weighting": "x"}, "unknown weighting 'x'; choose one of: posterior, uniform, both"),
        ({"min_len": 0}, "min_len must be at least 1, got 0"),
        ({"min_len": 3, "max_len": 2}, "max_len must be at least min_len, got min_len 3 and max_len 2"),
        ({"min_len": "3"}, "min_len must be a whole number, got '3'"),
        ({"max_len": 2.5}, "max_len must be a whole number, got 2.5"),
        ({"boundaries": "no"}, "boundaries must be True or False, got 'no'"),
        ({"unseen_char_prob": "a"}, "unseen_char_prob must be a number, got 'a'"),
        ({"unseen_char_prob": 0}, "unseen_char_prob must be above 1e-37 and at most 1, got 0.0"),
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
        ({"inner_boundaries": True}, MARKS_NEED_BOUNDARIES),
        ({"start_weight": 2.0}, MARKS_NEED_BOUNDARIES),
        ({"end_weight": 2.0}, MARKS_NEED_BOUNDARIES),
    ],
)
def test_bad_spelling_settings(settings, message):
    for kind in (Spelling, Preset):
        with pytest.raises(InputError) as error:
            kind(**settings)
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"min_vector_words": 0}, "min_vector_words must be at least 1, got 0"),
        ({"min_prob_words": 0}, "min_prob_words must be at least 1, got 0"),
        ({"max_vectors": 0}, "max_vectors must be at least 1, got 0"),
        ({"em_rounds": -1}, "em_rounds must be at least 0, got -1"),
        ({"types": "no"}, "types must be True or False, got 'no'"),
        ({"epochs": 2.5}, "epochs must be a whole number, got 2.5"),
        ({"epochs": None}, "epochs must be a whole number, got None"),
        ({"lr": "1"}, "lr must be a number, got '1'"),
        ({"lr": 0.0}, "lr must be a finite number above 0, got 0.0"),
        ({"lr": float("nan")}, "lr must be a finite number above 0, got nan"),
        ({"solver": "lsqr"}, "unknown solver 'lsqr'; choose one of: ridge, sgd"),
        ({"lam": 0}, 'lam must be a number from 1e-30 to 1e30, or "auto", got 0'),
        ({"lam": float("inf")}, 'lam must be a number from 1e-30 to 1e30, or "auto", got inf'),
        ({"lam": 1e-40}, 'lam must be a number from 1e-30 to 1e30, or "auto", got 1e-40'),
        ({"lam": "best"}, "lam must be a number from 1e-30 to 1e30, or \"auto\", got 'best'"),
        ({"lam": None}, 'lam must be a number from 1e-30 to 1e30, or "auto", got None'),
        ({"reliability": -0.1}, "reliability must be a number from 0 to 1, or auto or even, got -0.1"),
        ({"reliability": float("inf")}, "reliability must be a number from 0 to 1, or auto or even, got inf"),
        ({"reliability": "fitted"}, "reliability must be a number from 0 to 1, or auto or even, got 'fitted'"),
        ({"own_share": 1.1}, "own_share must be a number from 0 to 1, or fitted, got 1.1"),
        ({"own_share": float("nan")}, "own_share must be a number from 0 to 1, or fitted, got nan"),
        ({"own_share": None}, "own_share must be a number from 0 to 1, or fitted, got None"),
        ({"reliability": 0.1}, 'reliability, own_share and confidence need solver="ridge"'),
        ({"own_share": 0.3, "boundaries": True}, 'reliability, own_share and confidence need solver="ridge"'),
        ({"confidence": True}, 'reliability, own_share and confidence need solver="ridge"'),
        (
            {"own_share": 0.5, "solver": "ridge"},
            "own_share needs boundaries=True: it is the vector of the whole word with its marks",
        ),
        (
            {"unit_length": True, "solver": "ridge"},
            'unit_length needs solver="sgd": ridge regression needs words that are plain sums',
        ),
    ],
)
def test_bad_training_settings(settings, message):
    with pytest.raises(InputError) as error:
        Preset(**settings)
    assert str(error.value) == message


# Every number ---------------------------------------------------------------------------------------------------------

WORDS = ["high", "higher", "highest", "low", "lower", "lowest"]
TABLE = WORDS, np.arange(36, dtype=np.float32).reshape(6, 6) + np.eye(6, dtype=np.float32)
NO_NUMBERS = [True, False, np.True_, "2", b"2", [2], {}, np.array([2]), np.array([1, 2]), 2j, float("nan")]
NOT_WHOLE = [*NO_NUMBERS, 2.0, np.float32(2), 0.5, float("inf"), -1, np.int64(-1), -(10**30)]
NO_SHARES = [*NO_NUMBERS, float("inf"), -1, 2, 10**400, np.float32(-0.1)]


def numbers_of_settings():
    """Each setting that is a number: a whole one, or any."""
    for name, kind in get_type_hints(Preset).items():
        if name in ("boundaries", "types"):
            continue
        if int in (kind, *getattr(kind, "__args__", ())):
            yield name, NOT_WHOLE
        elif float in (kind, *getattr(kind, "__args__", ())):
            yield name, NO_NUMBERS


@pytest.mark.parametrize(("name", "wrong"), [*numbers_of_settings()])
def test_a_setting_that_is_a_number_takes_only_numbers(name, wrong):
    for value in wrong:
        with pytest.raises(InputError, match=f"^{name}|finite numbers above 0"):
            pbos.train(TABLE, preset="pbos", boundaries=True, **{name: value})


@pytest.mark.parametrize(
    "name", [name for name, kind in get_type_hints(Preset).items() if kind is bool or "str" in str(kind)]
)
def test_other_settings_are_checked_whatever_they_are(name):
    for value in (1, 0, "x", None, 2.0, [], np.array([1, 2]), np.array([True]), {}):
        with pytest.raises(InputError, match=name):
            Preset.named("default", {name: value})


@pytest.fixture(scope="module")
def model():
    return pbos.train(TABLE, lam=0.1, keep_targets=True)


NUMBERS = {
    "train limit": lambda model, value: pbos.train(TABLE, limit=value),
    "train seed": lambda model, value: pbos.train(TABLE, seed=value),
    "train threads": lambda model, value: pbos.train(TABLE, threads=value),
    "read limit": lambda model, value: pbos.WordVectors.read("no such file", limit=value),
    "compress dims": lambda model, value: model.compress(dims=value),
    "compress min_vector_words": lambda model, value: model.compress(min_vector_words=value),
    "neighbors n": lambda model, value: model.neighbors("high", value),
    "segment n": lambda model, value: model.segment(WORDS, value),
    "explain n": lambda model, value: model.explain("high", value),
    "explain neighbors": lambda model, value: model.explain("high", neighbors=value),
    "sample k": lambda model, value: model.sample("high", value),
    "sample seed": lambda model, value: model.sample("high", 1, value),
    "embed threads": lambda model, value: model.embed("high", threads=value),
    "segment threads": lambda model, value: model.segment("high", threads=value),
    "lattice n": lambda model, value: model.lattice("high").best(value),
    "lattice k": lambda model, value: model.lattice("high").sample(value),
    "learn dims": lambda model, value: pbos.learn([["a", "b"]], dims=value),
    "learn min_count": lambda model, value: pbos.learn([["a", "b"]], min_count=value),
    "from_counts max_len": lambda model, value: pbos.Segmenter.from_counts({"a": 1}, max_len=value),
    "from_counts em_rounds": lambda model, value: pbos.Segmenter.from_counts({"a": 1}, em_rounds=value),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_whole_numbers_are_whole_numbers(name, model):
    for value in NOT_WHOLE:
        with pytest.raises(InputError, match=rf"^{name.split()[1]} must be "):
            NUMBERS[name](model, value)


@pytest.mark.parametrize("name", ["compress dims", "neighbors n", "segment n", "sample k", "embed threads"])
def test_whole_numbers_of_numpy_count(name, model):
    expected = repr(NUMBERS[name](model, 2))
    for value in (np.int64(2), np.uint8(2), np.array(2)):
        assert repr(NUMBERS[name](model, value)) == expected


@pytest.mark.parametrize(
    "use",
    [
        lambda value: pbos.train(TABLE, heldout=value),
        lambda value: pbos.complete(TABLE, ["x"], min_confidence=value),
    ],
    ids=["heldout", "min_confidence"],
)
def test_shares_are_numbers_from_0_to_1(use):
    for value in NO_SHARES:
        with pytest.raises(InputError, match=r"^(heldout|min_confidence) must be "):
            use(value)


@pytest.mark.parametrize("memory", [True, -1, 0, "", "4X", float("nan"), float("inf"), 10**400, "1" * 308 + "T"])
def test_an_amount_of_memory_is_finite(memory, tmp_path):
    with pytest.raises(InputError, match=r"^memory must be at least 512M, as a number of bytes or a size such as '4G'"):
        pbos.train(TABLE, memory=memory, output=tmp_path / "model")


def test_huge_numbers_mean_all(model):
    for huge in (2**31, 2**63, 2**64, 10**30):
        assert len(model.neighbors("high", huge)) == len(WORDS) - 1
        assert model.segment("low", huge) == model.segment("low", 4)
        assert pbos.train(TABLE, preset="pbos", epochs=1, limit=huge, max_len=huge, max_vectors=huge).words == WORDS
        assert pbos.Segmenter.from_counts(dict.fromkeys(WORDS, 1), max_len=huge).coverage("high") == 1
        with pytest.raises(InputError, match="leaves no subword; use a smaller number"):
            model.compress(min_vector_words=huge)
        with pytest.raises(InputError, match="dims must be between 1 and the model's 6"):
            model.compress(dims=huge)
