"""The model folder: format, checks, saved completely or not at all."""

import contextlib
import copy
import json
import os
import pickle
import random
import shutil
import struct
import zlib
from mmap import mmap
from pathlib import Path

import numpy as np
import oracle
import pytest
from safetensors.numpy import load_file, save_file

import pbos
from pbos import ModelError, Segmenter
from pbos.files import atomic, model_folder
from pbos.layout import INDEX_LAYOUT, MODEL_LAYOUT, load_model_folder
from pbos.words.index import SubwordIndex

GOLDEN = Path(__file__).parents[1] / "golden"


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


@pytest.mark.parametrize("value", [np.nan, [np.inf], {"x": -np.inf}, {1, 2}, "\ud800", np.float32(1)])
def test_info_that_json_cannot_have_is_not_saved(model, folder, value):
    """Python's own JSON would have NaN, which no other reader takes."""
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    other = pbos.load(folder)
    other.info = {"made": value}
    with pytest.raises(ModelError, match=r"cannot save to .*: info must be plain data, as in JSON \("):
        other.save(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_the_file_is_what_the_safetensors_library_reads(folder):
    tensors = load_file(folder / "model.safetensors")
    mapped, *_ = load_model_folder(folder)
    assert tensors.keys() == mapped.keys()
    for name, array in tensors.items():
        assert np.array_equal(array, mapped[name])
        assert array.dtype == mapped[name].dtype


def test_loading_maps_and_copies_nothing(folder):
    tensors, *_ = load_model_folder(folder)
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
    """Change a config as somebody would who does not want the checksum to tell; None removes an entry."""
    config = {**json.loads((folder / "config.json").read_text(encoding="utf-8")), "checksum": None, **changes}
    kept = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept), encoding="utf-8")


def change_tensors(folder, **changes):
    tensors = load_file(folder / "model.safetensors")
    for name, change in changes.items():
        name = name.replace("__", ".")
        tensors[name] = change(tensors[name])
        if tensors[name] is None:
            del tensors[name]
    save_file(tensors, folder / "model.safetensors")
    change_config(folder)


def set_header_length(folder, length):
    with (folder / "model.safetensors").open("r+b") as stream:
        stream.write(struct.pack("<Q", length))


def write_header(folder, header, tensors=b""):
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + tensors)


def add_tensor(folder, shape):
    """Give the subword vectors another shape, in an otherwise empty file."""
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
    write_header(folder, json.dumps({"subword_vectors": entry}).encode())


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
        "has model format 99, but this version of pbos reads up to 1; upgrade with pip install --upgrade pbos",
    ),
    "no version": (lambda f: change_config(f, format_version="x"), "no valid format_version"),
    "version 0": (lambda f: change_config(f, format_version=0), "no valid format_version"),
    "other dims": (lambda f: change_config(f, dims=7), "the sizes in config.json are not those in model.safetensors"),
    "other index": (lambda f: change_config(f, subwords=7), "config.json does not belong to model.safetensors"),
    "no vectors in config": (lambda f: change_config(f, vectors=None), "the sizes in config.json are not those in"),
    "bad spelling": (lambda f: change_config(f, spelling={"weighting": "x"}), "bad spelling settings"),
    "unknown spelling": (lambda f: change_config(f, spelling={"new": 1}), "bad spelling settings"),
    "no spelling": (lambda f: change_config(f, spelling=None), "bad spelling settings"),
    "tensors cut": (lambda f: os.truncate(f / "model.safetensors", 900), "header of impossible length|inside the file"),
    "tensors empty": (lambda f: os.truncate(f / "model.safetensors", 0), "has a header of impossible length 0"),
    "long header": (lambda f: set_header_length(f, 2**60), "header of impossible length"),
    "no JSON header": (lambda f: set_header_length(f, 17), "damaged header"),
    "info is a list": (lambda f: change_config(f, info=["x"]), "an info that is not an object"),
    "deep JSON": (lambda f: (f / "config.json").write_text("[" * 10**6), "is not valid JSON"),
    "large config": (lambda f: (f / "config.json").write_text(" " * (17 << 20)), "is not valid JSON"),
    "weight of 400 digits": (
        lambda f: change_config(f, spelling={"boundaries": True, "start_weight": 10**400}),
        "start_weight must be a finite number",
    ),
    "deep header": (lambda f: write_header(f, b"[" * 10**5), "damaged header"),
    "huge shape": (lambda f: add_tensor(f, [1, 2**70]), "expected 1 to 1,000,000 columns"),
    "rows without columns": (lambda f: add_tensor(f, [2**30, 0]), "expected 1 to 1,000,000 columns"),
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
        "index arrays have inconsistent sizes",
    ),
    "no nodes": (lambda f: change_tensors(f, index__labels=lambda a: a[:0]), "index arrays have inconsistent sizes"),
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
def test_a_damaged_index_is_reported(folder, name, change):
    change_tensors(folder, **{f"index__{name}": change})
    with pytest.raises(ModelError, match="the index of subwords is not a trie; get a fresh copy of the model"):
        pbos.load(folder)


def index_of(alphabet, labels, children, probs=None, rows=None):
    probs = [0, *([0.1] * (len(labels) - 1))] if probs is None else probs
    rows = [-1] * len(labels) if rows is None else rows
    arrays = [np.array(numbers, np.int64) for numbers in (alphabet, labels, children)]
    return SubwordIndex.of(*arrays, np.array(probs, np.float32), np.array(rows, np.int32))


INVALID = {
    "a child that is its own parent": ("ab", [0, 0, 1, 0], [0, 0, 0, 1]),
    "more children than nodes": ("ab", [0, 0, 1, 0], [0, 1, 1, 0]),
    "fewer children than nodes": ("ab", [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]),
    "children of the root": ("ab", [0, 0, 1, 0], [1, 0, 0, 0]),
    "siblings that do not ascend": ("ab", [0, 0, 1, 1, 0], [0, 2, 0, 0, 0]),
    "equal siblings": ("ab", [0, 0, 1, 1, 1], [0, 2, 0, 0, 0]),
    "letters outside of the alphabet": ("ab", [0, 0, 1, 0, 2], [0, 2, 0, 0, 0]),
    "characters that are other letters": ("ab", [0, 1, 0, 0], [0, 1, 0, 0]),
    "characters in disorder": ("ba", [0, 0, 1, 0], [0, 1, 0, 0]),
    "surrogates": ("a\ud800", [0, 0, 1, 0], [0, 1, 0, 0]),
    "a probability of the root": ("ab", [0, 0, 1, 0], [0, 1, 0, 0], [0.1] * 4),
    "a vector of the root": ("ab", [0, 0, 1, 0], [0, 1, 0, 0], None, [0, -1, -1, -1]),
    "a row too many": ("ab", [0, 0, 1, 0], [0, 1, 0, 0], None, [-1, 0, 1, 2]),
    "a negative probability": ("ab", [0, 0, 1, 0], [0, 1, 0, 0], [0, -0.1, 0.1, 0.1]),
    "NaN": ("ab", [0, 0, 1, 0], [0, 1, 0, 0], [0, 0.1, np.nan, 0.1]),
    "infinity": ("ab", [0, 0, 1, 0], [0, 1, 0, 0], [0, 0.1, np.inf, 0.1]),
}


@pytest.mark.parametrize("what", INVALID)
def test_an_index_that_is_no_trie_is_found(what):
    alphabet, *rest = INVALID[what]
    index = index_of([*map(ord, alphabet)], *rest)
    assert index.has_sizes() and not index.is_valid(n_vectors=2)


def test_an_index_that_is_a_trie_is_valid():
    assert index_of([*map(ord, "ab")], [0, 0, 1, 0, 1, 1], [0, 2, 1, 0, 0, 0], None, [-1, 0, 1, -1, 1, 0]).is_valid(2)
    assert index_of([], [0], [0]).is_valid(0)


def test_a_word_list_that_goes_back_and_forth(folder):
    def harm(offsets):
        back = np.tile(offsets[[-1, 0]], offsets.size)[: offsets.size]
        back[[0, -1]] = offsets[[0, -1]]
        return back

    change_tensors(folder, words__offsets=harm)
    with pytest.raises(ModelError, match="the words do not fit their offsets"):
        pbos.load(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_file_that_is_no_file(folder, name, kind):
    (folder / name).unlink()
    if kind == "pipe":
        os.mkfifo(folder / name)
    elif kind == "device":
        (folder / name).symlink_to("/dev/zero")
    else:
        (folder / name).mkdir()
    with pytest.raises((ModelError, IsADirectoryError), match=r"not a regular file|directory"):
        pbos.load(folder)
    assert model_folder.is_model(folder) == (name != "config.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_an_error_of_the_system_has_the_whole_path(folder, name):
    (folder / name).unlink()
    (folder / name).symlink_to(name)  # a loop; unlike permissions, it stops root too
    with pytest.raises(OSError, match="Too many levels") as error:
        pbos.load(folder)
    assert error.value.filename == str(folder / name)


# -- checksums ---------------------------------------------------------------------------------------------------------


def test_the_checksums_are_those_of_zlib(folder):
    content = (folder / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    checksums = header.pop("__metadata__")
    assert checksums.pop("format") == "pbos"
    assert checksums == {
        name: f"{zlib.crc32(content[end:][slice(*entry['data_offsets'])]):08x}" for name, entry in header.items()
    }
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    stored = config.pop("checksum")
    plain = json.dumps(config, sort_keys=True).encode() + content[8:end]
    assert stored == f"{zlib.crc32(plain):08x}"


@pytest.mark.parametrize("name", sorted({*INDEX_LAYOUT, *MODEL_LAYOUT, "subword_norms", "target_vectors"}))
def test_a_flipped_bit_in_any_tensor_is_found(folder, name):
    content = bytearray((folder / "model.safetensors").read_bytes())
    end = 8 + int.from_bytes(content[:8], "little")
    first, last = json.loads(content[8:end])[name]["data_offsets"]
    for place in {first, (first + last) // 2, last - 1} if first < last else ():
        content[end + place] ^= 1
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").write_bytes(content)
        with pytest.raises(ModelError, match=f"checksum of {name} is wrong|not a trie|do not fit their offsets"):
            pbos.load(folder)
        content[end + place] ^= 1


def test_large_vectors_are_checked_on_request(folder, monkeypatch):
    monkeypatch.setattr(model_folder, "CHECKED_AT_LOAD", 100)
    assert pbos.load(folder, verify=True)["high"].any()
    content = bytearray((folder / "model.safetensors").read_bytes())
    end = 8 + int.from_bytes(content[:8], "little")
    content[end + json.loads(content[8:end])["target_vectors"]["data_offsets"][0]] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    assert pbos.load(folder)["high"].any()
    with pytest.raises(ModelError, match="the checksum of target_vectors is wrong"):
        pbos.load(folder, verify=True)


def test_a_config_of_another_model_is_found(model, folder, tmp_path):
    other = pbos.train((model.words, 2 * np.eye(6)), epochs=5, keep_targets=True)  # of the same sizes
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", folder)
    with pytest.raises(ModelError, match=r"does not belong to model\.safetensors"):
        pbos.load(folder)


def test_a_model_replaced_while_it_is_loaded(model, folder, tmp_path, monkeypatch):
    """The files are those of one model, the new one, also if the old files are still there."""
    other = model.compress(dtype="int8")
    read = model_folder.read_config

    def read_then_replace(path, stream):
        config = read(path, stream)
        monkeypatch.setattr(model_folder, "read_config", read)
        other.save(folder)
        return config

    monkeypatch.setattr(model_folder, "read_config", read_then_replace)
    assert pbos.load(folder).subword_vectors.dtype == "int8"
    monkeypatch.setattr(atomic, "discard", lambda *_: None)  # the old files are still there
    model.save(folder)
    monkeypatch.setattr(model_folder, "read_config", read_then_replace)
    assert pbos.load(folder).subword_vectors.dtype == "int8"


def test_a_model_without_checksums_loads(folder):
    tensors = load_file(folder / "model.safetensors")
    change_tensors(folder)
    assert "checksum" not in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert np.array_equal(pbos.load(folder, verify=True).subword_vectors.values, tensors["subword_vectors"])


def test_more_vectors_than_an_index_can_name(model, folder):
    """A file with a hole of four gigabytes, which takes no space; its first rows have numbers of 32 bits."""
    n_rows = 2**31 + 8
    kept = {name: array for name, array in load_file(folder / "model.safetensors").items() if name.startswith("index")}
    numbers = np.where(model.index.rows < 0, 0, model.index.rows + 2.0**31).astype("<u4")
    kept["index.rows"] = numbers.view(np.uint8).reshape(-1, 4)
    kept |= {"words.bytes": np.zeros(0, np.uint8), "words.offsets": np.zeros(1, np.int64)}
    save_file({**kept, "subword_vectors": np.zeros((1, 1), np.float16)}, folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    start = len(content) - end + -(len(content) - end) % 8
    header["subword_vectors"] = {"dtype": "F16", "shape": [n_rows, 1], "data_offsets": [start, start + 2 * n_rows]}
    write_header(folder, json.dumps(header).encode().ljust(4096), content[end:])
    os.truncate(folder / "model.safetensors", 8 + 4096 + start + 2 * n_rows)
    change_config(folder, vectors=n_rows, dims=1, words=0)
    with pytest.raises(ModelError, match="there are more vectors than an index can name"):
        pbos.load(folder)


def test_copies_of_a_model_do_not_need_its_file(model, folder):
    """Not even if it is cut, which would end the process (SIGBUS) if a copy were still mapped."""

    def is_mapped(array):
        while isinstance(array, np.ndarray):
            array = array.base
        return isinstance(getattr(array, "obj", None), mmap)

    loaded, words = pbos.load(folder), ["highest", "東京", "low"]
    assert is_mapped(loaded.subword_vectors.values)
    expected = loaded.embed(words, exact=True)
    for clone in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        arrays = (*clone.index.arrays, clone.subword_vectors.values, clone._target_vectors, *clone._packed_words)
        assert not any(map(is_mapped, arrays))
        assert np.array_equal(clone.embed(words, exact=True), expected)


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
    change_tensors(tmp_path / "m")  # drops the checksums, which would find all damage
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
        ("other", "something other than a pbos model"),
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


def test_a_link_put_in_place_of_a_model_after_the_check_is_not_followed(model, tmp_path, monkeypatch):
    model.save(tmp_path / "m")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    is_model = model_folder.is_model

    def then_swap(folder):
        found = is_model(folder)
        (tmp_path / "m").rename(tmp_path / "moved")
        (tmp_path / "m").symlink_to(tmp_path / "other")
        return found

    monkeypatch.setattr(model_folder, "is_model", then_swap)
    with pytest.raises(NotADirectoryError):
        model.save(tmp_path / "m")
    assert (tmp_path / "other" / "thesis.txt").exists()


def test_where_folders_cannot_be_exchanged(model, tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "exchange", lambda first, second: False)
    model.save(tmp_path / "m")
    model.compress(dtype="int8").save(tmp_path / "m")
    assert pbos.load(tmp_path / "m").subword_vectors.dtype == "int8"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_a_failed_save_leaves_nothing(model, tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(atomic, "put_in_place", fail)
    with pytest.raises(OSError, match="disk full"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
