"""Damaged and crafted maps from contexts: one error when a model is loaded, or the same answers."""

import json
import random

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pbos
from pbos import ModelError, Segmenter
from pbos.layout import CONFIDENCE_LAYOUT, CONTEXT_LAYOUT, IS_WORD_LAYOUT

PROBLEM = "the map from contexts does not fit the subword vectors"


@pytest.fixture
def folder(contextual, tmp_path):
    contextual.save(tmp_path / "m")
    return tmp_path / "m"


def change(folder, changes):
    """Change tensors as somebody would who does not want a checksum to tell; None removes one."""
    tensors = load_file(folder / "model.safetensors")
    tensors |= {name: None if make is None else make(tensors[name]) for name, make in changes.items()}
    save_file({name: array for name, array in tensors.items() if array is not None}, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["checksum"]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def with_value(value, at=0):
    def make(array):
        array = array.copy()
        array.flat[at] = value
        return array

    return make


def test_an_unharmed_map_loads(folder, contextual):
    change(folder, {})
    sentence = f"{contextual.words[0]} xyz"
    expected = contextual.embed("xyz", contexts=sentence)
    assert pbos.load(folder).embed("xyz", contexts=sentence).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", sorted(CONTEXT_LAYOUT))
def test_a_tensor_that_is_missing_or_of_another_size(folder, name):
    for make in (None, lambda array: array[:-1], lambda array: np.concatenate([array, array[:1]])):
        before = (folder / "model.safetensors").read_bytes(), (folder / "config.json").read_bytes()
        change(folder, {name: make})
        with pytest.raises(ModelError, match=PROBLEM):
            pbos.load(folder)
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").write_bytes(before[0])
        (folder / "config.json").write_bytes(before[1])


@pytest.mark.parametrize("name", sorted(name for name, (types, _) in CONTEXT_LAYOUT.items() if "F32" in types))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(folder, name, value):
    change(folder, {name: with_value(value, -1)})
    with pytest.raises(ModelError, match=PROBLEM):
        pbos.load(folder)


CRAFTED = {
    "nothing is kept": {"from_contexts.kept": with_value(0)},
    "less than nothing": {"from_contexts.kept": with_value(-0.5)},
    "more than all": {"from_contexts.kept": with_value(1.5)},
    "a window of nothing": {"from_contexts.counting": with_value(0)},
    "a negative window": {"from_contexts.counting": with_value(-3)},
    "an unknown cut": {"from_contexts.counting": with_value(3, 2)},
    "a cut before the first": {"from_contexts.counting": with_value(-1, 2)},
    "no spread": {"from_contexts.of_contexts.spread": with_value(0)},
    "a negative spread": {"from_contexts.of_spelling.spread": with_value(-1, 3)},
    "no confidence": dict.fromkeys(CONFIDENCE_LAYOUT | IS_WORD_LAYOUT),
    "other dimensions": {"from_contexts.matrix": lambda array: array[:, :-1].copy()},
    "transposed": {"from_contexts.matrix": lambda array: array.T.copy()},
    "words beyond the end": {"from_contexts.words.offsets": with_value(10**6, -1)},
    "words that go back": {"from_contexts.words.offsets": with_value(10**5, 3)},
    "words that are not UTF-8": {"from_contexts.words.bytes": lambda array: np.full_like(array, 255)},
}


@pytest.mark.parametrize("what", CRAFTED)
def test_crafted_maps(folder, what):
    change(folder, CRAFTED[what])
    with pytest.raises(ModelError, match=PROBLEM):
        pbos.load(folder)


@pytest.mark.parametrize("name", sorted(CONTEXT_LAYOUT))
def test_a_flipped_bit_is_found(folder, name):
    content = bytearray((folder / "model.safetensors").read_bytes())
    end = 8 + int.from_bytes(content[:8], "little")
    first, last = json.loads(content[8:end])[name]["data_offsets"]
    content[end + (first + last) // 2] ^= 1
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match=f"checksum of {name} is wrong"):
        pbos.load(folder)


def test_random_damage_to_a_map_gives_numbers_or_an_error(folder, contextual):
    """Whatever bytes are there."""
    change(folder, {})
    content = (folder / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    places = [range(*header[name]["data_offsets"]) for name in CONTEXT_LAYOUT]
    generator, loaded = random.Random(0), 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(generator.choice([1, 3])):
            damaged[end + generator.choice(generator.choice(places))] = generator.randrange(256)
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").write_bytes(damaged)
        try:
            model = pbos.load(folder)
        except ModelError:
            continue
        loaded += 1
        with np.errstate(all="ignore"):
            vector = model.embed("xyz", contexts=f"{model.words[0]} xyz {model.words[1]}")
        assert vector.shape == (model.dims,)
        assert model.embed("xyz").tobytes() == contextual["xyz"].tobytes()
    assert 20 < loaded < 140


def test_a_segmenter_reads_the_folder(folder, contextual):
    assert Segmenter.load(folder).segment("ksenoz") == contextual.segment("ksenoz")


def test_without_the_map_it_is_the_model_of_before(folder, contextual, confident):
    """Models of earlier versions have none; the rest of the file is the same."""
    change(folder, dict.fromkeys(CONTEXT_LAYOUT))
    loaded = pbos.load(folder)
    assert not loaded.has_contexts
    assert loaded.config().keys() == confident.config().keys()
    words = ["ksenoz", *contextual.words[:9]]
    assert loaded.embed(words).tobytes() == contextual.embed(words).tobytes()
    assert loaded.confidence(words).tobytes() == contextual.confidence(words).tobytes()
