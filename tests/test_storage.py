"""The model folder: format, checks, saved completely or not at all."""

import contextlib
import json
import os
import random
import shutil
import struct
from pathlib import Path

import numpy as np
import oracle
import pytest
from safetensors.numpy import load_file, save_file

import pbos
from pbos import ModelError, Segmenter, files, storage

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def model():
    words = ["high", "higher", "low", "lower", "straße", "東京"]
    return pbos.train((words, np.eye(6)), epochs=5, keep_targets=True)


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("preset", ["default", "pbos", "bos"])
def test_round_trip(dtype, preset, tmp_path):
    words = ["high", "higher", "lower", "e\u0301tude", "東京都"]
    settings = {"normalization": "NFKC", "unseen_char_prob": 0.02}
    model = pbos.train((words, np.eye(5)), preset=preset, epochs=5, **settings).compress(dtype=dtype, keep_targets=True)
    model.save(tmp_path / "m")
    loaded = pbos.load(tmp_path / "m")
    for exact in (False, True):
        assert np.array_equal(
            loaded.embed([*words, "highest"], exact=exact), model.embed([*words, "highest"], exact=exact)
        )
    assert loaded.words == model.words
    assert loaded.config() == model.config()
    assert loaded.spelling == model.spelling
    assert loaded.segment("highest", 5) == model.segment("highest", 5)
    loaded.save(tmp_path / "m2")
    for name in ("model.safetensors", "config.json", "README.md"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "m2" / name).read_bytes()


def test_the_file_is_what_the_safetensors_library_reads(folder):
    tensors = load_file(folder / "model.safetensors")
    mapped = storage.map_tensors(folder / "model.safetensors")
    assert tensors.keys() == mapped.keys()
    for name, array in tensors.items():
        assert np.array_equal(array, mapped[name])
        assert array.dtype == mapped[name].dtype


def test_loading_maps_and_copies_nothing(folder):
    tensors, _ = storage.load_folder(folder)
    assert all(not array.flags.owndata and not array.flags.writeable for array in tensors.values())
    assert not any(array.flags.owndata for array in pbos.load(folder).index.arrays)


def test_the_golden_folder_loads():
    """Every later version has to load model-v1, which the first version 1 wrote, and give the numbers of model-v1.json.

    The recipe, whose expected vectors are those of the enumeration of all segmentations (`oracle.vector`):

        words = ["high", "higher", "highest", "low", "lower", "x-ray", "straße", "東京", "naïve"]
        targets = np.random.default_rng(1).normal(size=(len(words), 5)).astype(np.float32)
        model = pbos.train((words, targets), lam=0.01).compress(dtype="int8", keep_targets=True)
        model.save("tests/golden/model-v1")
    """
    model = pbos.load(GOLDEN / "model-v1")
    expected = json.loads((GOLDEN / "model-v1.json").read_text(encoding="utf-8"))
    assert model.words == expected["words"]
    assert model.subword_vectors.dtype == expected["dtype"]
    for word, vector in expected["vectors"].items():
        assert np.linalg.norm(model[word] - vector) <= 1e-3 * np.linalg.norm(vector)  # negligible parts are left out
    assert model.embed(expected["words"], exact=True) == pytest.approx(np.array(expected["targets"]), abs=1e-6)
    for word, pieces in expected["segmentations"].items():
        assert list(model.segment(word)[0].pieces) == pieces
    assert Segmenter.load(GOLDEN / "model-v1").segment("highest") == model.segment("highest")


def test_the_golden_vectors_are_those_of_the_enumeration():
    model = pbos.load(GOLDEN / "model-v1")
    expected = json.loads((GOLDEN / "model-v1.json").read_text(encoding="utf-8"))
    for word, vector in expected["vectors"].items():
        assert oracle.vector(model, word) == pytest.approx(vector, abs=1e-6)


# -- what cannot be loaded ---------------------------------------------------------------------------------------------


def change_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")


def drop_from_config(folder, name):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config[name]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def change_tensors(folder, **changes):
    tensors = load_file(folder / "model.safetensors")
    for name, change in changes.items():
        name = name.replace("__", ".")
        tensors[name] = change(tensors[name])
        if tensors[name] is None:
            del tensors[name]
    save_file(tensors, folder / "model.safetensors")


def set_header_length(folder, length):
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.write(struct.pack("<Q", length))


def replace_bytes(folder, old, new):
    content = (folder / "model.safetensors").read_bytes()
    assert content.count(old) == 1 and len(old) == len(new)
    (folder / "model.safetensors").write_bytes(content.replace(old, new))


DAMAGE = {
    "no folder": (shutil.rmtree, "no model folder at"),
    "no config": (lambda f: (f / "config.json").unlink(), "has no config.json"),
    "no tensors": (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
    "config cut": (lambda f: (f / "config.json").write_text('{"format": "pb'), "is not valid JSON"),
    "other format": (lambda f: change_config(f, format="other"), 'does not say "format": "pbos"'),
    "newer version": (
        lambda f: change_config(f, format_version=99),
        "has model format 99, this pbos reads up to 1; upgrade with pip install --upgrade pbos",
    ),
    "no version": (lambda f: change_config(f, format_version="x"), "no valid format_version"),
    "version 0": (lambda f: change_config(f, format_version=0), "no valid format_version"),
    "other dims": (lambda f: change_config(f, dims=7), "the sizes in config.json are not those in model.safetensors"),
    "other index": (lambda f: change_config(f, subwords=7), "config.json does not belong to model.safetensors"),
    "no vectors in config": (lambda f: drop_from_config(f, "vectors"), "the sizes in config.json are not those in"),
    "bad spelling": (lambda f: change_config(f, spelling={"weighting": "x"}), "bad spelling settings"),
    "unknown spelling": (lambda f: change_config(f, spelling={"new": 1}), "bad spelling settings"),
    "no spelling": (lambda f: drop_from_config(f, "spelling"), "bad spelling settings"),
    "tensors cut": (lambda f: os.truncate(f / "model.safetensors", 900), "header of impossible length|inside the file"),
    "tensors empty": (lambda f: os.truncate(f / "model.safetensors", 0), "is truncated: 0 bytes"),
    "long header": (lambda f: set_header_length(f, 2**60), "header of impossible length"),
    "no JSON header": (lambda f: set_header_length(f, 17), "damaged header"),
    "wrong shape": (lambda f: replace_bytes(f, b'"shape":[6,6]', b'"shape":[6,9]'), "is not inside the file"),
    "no rows": (lambda f: change_tensors(f, index__rows=lambda a: None), "has no tensor index.rows"),
    "no vectors": (lambda f: change_tensors(f, subword_vectors=lambda a: None), "has no tensor subword_vectors"),
    "no words": (lambda f: change_tensors(f, words__bytes=lambda a: None), "has no tensor words.bytes"),
    "wrong type": (lambda f: change_tensors(f, index__rows=lambda a: a.astype(np.int64)), "index.rows has type I64"),
    "wrong rank": (lambda f: change_tensors(f, index__probs=lambda a: a[None]), "expected F32/U8 with 1 dimensions"),
    "short rows": (lambda f: change_tensors(f, index__rows=lambda a: a[:-1]), "index arrays have inconsistent sizes"),
    "short probs": (lambda f: change_tensors(f, index__probs=lambda a: a[1:]), "index arrays have inconsistent sizes"),
    "wide rows": (
        lambda f: change_tensors(f, index__rows=lambda a: np.tile(a, 5)),
        "index arrays have inconsistent sizes",
    ),
    "no levels": (
        lambda f: change_tensors(f, index__probs=lambda a: a.astype(np.uint8), index__prob_levels=lambda a: a[:0]),
        "the probabilities do not fit their levels",
    ),
    "short norms": (lambda f: change_tensors(f, subword_norms=lambda a: a[:-1]), "vectors do not fit their norms"),
    "bad offsets": (lambda f: change_tensors(f, words__offsets=lambda a: a + 1), "the words do not fit their offsets"),
    "bad targets": (
        lambda f: change_tensors(f, target_vectors=lambda a: a[:-1]),
        "target vectors do not fit the words",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_reported(folder, damage):
    harm, message = DAMAGE[damage]
    harm(folder)
    with pytest.raises(ModelError, match=message):
        pbos.load(folder)


@pytest.mark.parametrize("change", [lambda a: a + 1, lambda a: a[::-1].copy()], ids=["added", "reversed"])
@pytest.mark.parametrize("name", ["labels", "children"])
def test_a_damaged_index_is_reported_on_first_use(folder, name, change):
    change_tensors(folder, **{f"index__{name}": change})
    with pytest.raises(ModelError, match="the model's subword index is damaged; get a fresh copy of the model"):
        pbos.load(folder)["high"]


def test_scales_must_match(model, tmp_path):
    model.compress(dtype="int8").save(tmp_path / "i8")
    change_tensors(tmp_path / "i8", subword_scales=lambda a: a[:-1])
    with pytest.raises(ModelError, match="the subword vectors do not fit their scales"):
        pbos.load(tmp_path / "i8")


def test_damaged_words_are_reported_when_asked_for(folder):
    change_tensors(folder, words__bytes=lambda a: np.full_like(a, 255))
    model = pbos.load(folder)
    assert model["high"].any()
    with pytest.raises(ModelError, match="list of words is damaged"):
        model.words  # noqa: B018


def many_letters(n=600):
    """A model with more letters, and more children of a node, than fit a byte."""
    words = [chr(0x4E00 + i) + chr(0x4E00 + i % 7) for i in range(n)]
    return pbos.train((words, np.ones((n, 2))), lam=1)


WHOLE = {
    "exact": lambda: pbos.train((["high", "higher", "low", "東京"], np.eye(4)), preset="pbos", epochs=5),
    "levels": lambda: pbos.train((["high", "higher", "low", "東京"], np.eye(4)), lam=0.1),
    "wide": many_letters,
    "int8": lambda: pbos.train((["high", "higher", "low", "東京"], np.eye(4)), lam=0.1).compress(dtype="int8"),
    "segmenter": lambda: Segmenter.from_counts({"high": 3, "higher": 1, "low": 2, "東京": 1}, boundaries=True),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_random_damage_never_crashes(kind, tmp_path):
    """Any byte may be wrong: loading or embedding gives an error or numbers, but never reads outside of the arrays."""
    WHOLE[kind]().save(tmp_path / "m")
    content = (tmp_path / "m" / "model.safetensors").read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    generator = random.Random(1)
    for _ in range(300):
        damaged = bytearray(content)
        first = generator.choice([0, header])
        for _ in range(generator.choice([1, 10, 200])):
            damaged[generator.randrange(first, len(damaged))] = generator.randrange(256)
        (tmp_path / "m" / "model.safetensors").unlink()  # the old one may still be mapped
        (tmp_path / "m" / "model.safetensors").write_bytes(damaged)
        with contextlib.suppress(ModelError):
            loaded = Segmenter.load(tmp_path / "m") if kind == "segmenter" else pbos.load(tmp_path / "m")
            loaded.segment(["higher", "東京"], 3)
            loaded.weights("higher")
            if kind != "segmenter":
                assert loaded.embed(["highest", "lowest", "東京", "x", "\u4e00\u4e01"]).shape[0] == 5


@pytest.mark.parametrize("prob", [np.inf, -np.inf, np.nan, 3e38, -1])
@pytest.mark.parametrize("kind", ["exact", "levels"])
def test_impossible_probabilities_give_some_numbers(prob, kind, tmp_path):
    WHOLE[kind]().save(tmp_path / "m")
    name = "index__probs" if kind == "exact" else "index__prob_levels"
    change_tensors(tmp_path / "m", **{name: lambda a: np.full_like(a, prob)})
    loaded = pbos.load(tmp_path / "m")
    assert np.isfinite(loaded.embed(["highest", "low"])).all()
    assert loaded.segment("higher", 3)
    assert loaded.sample("higher", 3, seed=0)


@pytest.mark.parametrize("name", ["alphabet", "labels", "children", "rows"])
@pytest.mark.parametrize("kind", ["exact", "wide"])
def test_extreme_numbers_in_the_index_never_crash(name, kind, tmp_path):
    WHOLE[kind]().save(tmp_path / "m")
    generator = np.random.default_rng(0)

    def harm(array):
        some = generator.random(array.shape) < 0.5
        some.flat[[0, -1]] = False
        return np.where(some, np.iinfo(array.dtype).max, array)

    change_tensors(tmp_path / "m", **{f"index__{name}": harm})
    with contextlib.suppress(ModelError):
        assert pbos.load(tmp_path / "m").embed(["highest", "lowest", "東京", "\u4e00\u4e01"]).shape[0] == 4


# -- saving ------------------------------------------------------------------------------------------------------------


def test_saving_replaces_a_model_but_nothing_else(model, tmp_path):
    target = tmp_path / "m"
    model.save(target)
    model.compress(dtype="int8").save(target)
    assert pbos.load(target).subword_vectors.dtype == "int8"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
    (tmp_path / "empty").mkdir()
    model.save(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    model.save(tmp_path / "noted")
    (tmp_path / "noted" / "thesis.txt").write_text("x")
    noted = "contains thesis.txt, which is not part of a pbos model"
    for place, message in (
        ("other", "other content"),
        ("noted", noted),
        ("file", "is a file"),
        ("no/where", "does not exist"),
    ):
        with pytest.raises(ModelError, match=message):
            model.save(tmp_path / place)
    assert (tmp_path / "other" / "thesis.txt").read_text() == "x"
    assert (tmp_path / "noted" / "thesis.txt").read_text() == "x"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["empty", "file", "m", "noted", "other"]


def test_a_model_in_use_can_be_replaced(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = pbos.load(tmp_path / "m")
    before = loaded["highest"].copy()
    model.compress(dims=2).save(tmp_path / "m")
    assert np.array_equal(loaded["highest"], before)
    loaded.save(tmp_path / "m")  # replaces the folder that its own was replaced by
    assert np.array_equal(pbos.load(tmp_path / "m")["highest"], before)


def test_a_link_to_a_model_stays_a_link(model, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert pbos.load(tmp_path / "real").words == model.words


def test_where_folders_cannot_be_exchanged(model, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "exchange", lambda first, second: False)
    model.save(tmp_path / "m")
    model.compress(dtype="int8").save(tmp_path / "m")
    assert pbos.load(tmp_path / "m").subword_vectors.dtype == "int8"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_a_failed_save_leaves_nothing(model, tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(files, "put_in_place", fail)
    with pytest.raises(OSError, match="disk full"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
