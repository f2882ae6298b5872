"""What nobody can change: models, tables and counts, by what they were made of and by what they hand out."""

import copy
import inspect
import json
import pickle
from contextlib import suppress

import numpy as np
import pytest

import pbos
from pbos import Cooccurrences, InputError, Segmenter, WordCounts, WordVectors
from pbos.corpus.cooccurrences import Counting
from pbos.words.readonly import ReadOnlyDict, ReadOnlyList, locked, owned, read_only

WORDS = ["high", "higher", "highest", "low", "lower", "lowest", "straße", "x-ray"]
ASKED = [*WORDS, "highlow", "Lowest", "ЖЖ"]


def matrix():
    return np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)


# Everything that can be reached ---------------------------------------------------------------------------------------


def reachable(thing, seen):
    """Yield all that public attributes and the items of collections lead to: objects of pbos, arrays, lists, dicts."""
    if id(thing) in seen:
        return
    seen[id(thing)] = thing  # kept, so that no other object gets its id
    if isinstance(thing, dict):
        inner = [*thing.values()]
    elif isinstance(thing, (list, tuple)):
        inner = [*thing]
    elif type(thing).__module__.startswith("pbos.") and not isinstance(thing, type):
        inner = [value for name in dir(thing) if name[0] != "_" and not callable(value := getattr(thing, name))]
    else:
        inner = []
    if isinstance(thing, (np.ndarray, list, dict)) or inner:
        yield thing
    for one in inner:
        yield from reachable(one, seen)


def attacks(thing):
    """Yield functions that change a collection or an array in place."""
    if isinstance(thing, np.ndarray) and thing.size:
        yield lambda: thing.fill(1)
        yield lambda: np.add(thing, 1, out=thing, casting="unsafe")
        yield lambda: thing.sort(axis=0)
    elif isinstance(thing, list):
        yield from (lambda: thing.sort(key=str), thing.reverse, lambda: thing.append("x"), lambda: thing.insert(0, "x"))
        yield from (lambda: thing.extend("xy"), thing.pop, lambda: thing.remove(thing[0]), thing.clear)
        yield from (lambda: thing.__setitem__(0, "x"), lambda: thing.__delitem__(slice(2)))
        yield from (lambda: thing.__iadd__(["x"]), lambda: thing.__imul__(2))
    elif isinstance(thing, dict):
        yield from (lambda: thing.update(x=1), thing.popitem, lambda: thing.pop(next(iter(thing))), thing.clear)
        yield from (
            lambda: thing.__setitem__("x", 1),
            lambda: thing.setdefault("x", 1),
            lambda: thing.__ior__({"x": 1}),
        )
        yield lambda: thing.__delitem__(next(iter(thing)))


def attack(*things):
    """Try to change everything that can be reached."""
    found = [one for thing in things for one in reachable(thing, {})]
    for one in found:
        for change in attacks(one):
            with suppress(ValueError, TypeError, KeyError, IndexError, StopIteration):
                change()
    return found


def answers(model):
    """What a model says."""
    found = [model.embed(ASKED).tobytes(), model.embed(ASKED, exact=True).tobytes(), model.embed("high").tobytes()]
    found += [model.neighbors(ASKED, 3), model.neighbors("low", 3, exact=True), model.similarity("high", "low")]
    found += [model.segment(ASKED, 3), model.weights(ASKED), model.entropy("lowest"), model.read_as("LOWEST")]
    found += [list(model.words), [word in model for word in ASKED], len(model), json.dumps(model.config())]
    return [*found, model.confidence(ASKED).tobytes() if model.has_confidence else None]


@pytest.mark.parametrize("kind", ["fresh", "loaded", "pickled", "int8", "with targets", "confident"])
def test_a_model_stays_what_it_is_whatever_is_written_into_what_it_hands_out(kind, tmp_path, confident):
    if kind == "confident":
        model = confident
    else:
        info = {"notes": {"list": ["a", ("b", ["c"])]}}
        model = pbos.train((WORDS, matrix()), lam=0.1, info=info, keep_targets=True)
    if kind == "loaded":
        model.save(tmp_path / "model")
        model = pbos.load(tmp_path / "model")
    elif kind == "pickled":
        model = pickle.loads(pickle.dumps(model))
    elif kind == "int8":
        model = model.compress(dtype="int8", dims=3, keep_targets=True)
    elif kind == "with targets":
        model = model.with_targets((WORDS, matrix()))
    expected = answers(copy.copy(model))  # which has caches of its own
    explanation, lattice = model.explain("highlow"), model.lattice("highlow")
    explained, drawn = explanation.to_dict(), lattice.svg()
    for _ in range(2):  # before anything is cached, and after
        found = attack(model, model.config(), explanation, lattice, model.subwords.words, model.neighbors("low"))
        assert sum(isinstance(one, np.ndarray) for one in found) >= 10
        assert len(found) > 40
        assert answers(model) == answers(pickle.loads(pickle.dumps(model))) == expected
        assert (explanation.to_dict(), lattice.svg()) == (explained, drawn)


def test_a_segmenter_stays_what_it_is():
    segmenter = Segmenter.from_counts(dict.fromkeys(WORDS, 3.0))
    expected = segmenter.segment(ASKED, 3)
    assert any(isinstance(one, np.ndarray) for one in attack(segmenter, segmenter.explain("highlow")))
    assert segmenter.segment(ASKED, 3) == copy.copy(segmenter).segment(ASKED, 3) == expected


@pytest.mark.parametrize("clone", [lambda one: one, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_tables_and_counts_stay_what_they_are(clone):
    vectors, counts = clone(WordVectors(WORDS, matrix())), clone(WordCounts(WORDS, np.arange(8.0) + 1))
    assert len(attack(vectors, counts, vectors.row_of, vectors["high"], vectors[["high", "low"]])) > 6
    assert np.array_equal(vectors[WORDS], matrix())
    assert vectors.words == counts.words == WORDS
    assert counts.counts.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert "low" in vectors
    assert dict(counts)["low"] == 4


def test_cooccurrences_stay_what_they_are(tmp_path):
    Cooccurrences.of_block("the high and the low\n" * 9, Counting(), ["digest"]).save(tmp_path / "counted")
    counted = Cooccurrences.load(tmp_path / "counted")
    expected = list(counted.words), counted.counts.tolist(), list(counted.blocks), counted.data.tolist()
    assert len(attack(counted)) > 6
    assert (counted.words, counted.counts.tolist(), counted.blocks, counted.data.tolist()) == expected


# What they were made of -----------------------------------------------------------------------------------------------


def sources(values):
    """The forms in which the same table can be given, all of which share its memory."""
    window = np.zeros((len(WORDS), 9), np.float32)[:, :6]  # neither are its rows adjacent, nor does it own them
    window[:] = values
    view = values[:]
    view.flags.writeable = False
    return {
        "pair": (WORDS, values),
        "window": (WORDS, window),
        "read-only view": (WORDS, view),
        "mapping": dict(zip(WORDS, values, strict=True)),
        "WordVectors": WordVectors(WORDS, values),
        "memoryview": (WORDS, memoryview(values)),
    }


@pytest.mark.parametrize("source", sources(matrix()))
@pytest.mark.parametrize("door", ["train", "with_targets"])
def test_a_model_does_not_share_memory_that_others_can_write(source, door):
    values, words = matrix(), list(WORDS)
    table = sources(values)[source]
    if door == "train":
        model = pbos.train(table, preset="pbos", epochs=2, keep_targets=True)
    else:
        model = pbos.train((WORDS, matrix()), preset="pbos", epochs=2).with_targets(table)
    expected = answers(copy.deepcopy(model))
    values.fill(9)
    words.clear()
    if isinstance(table, tuple) and isinstance(table[1], np.ndarray) and table[1].flags.writeable:
        table[1].fill(9)
    assert answers(model) == expected
    assert np.array_equal(model.embed(WORDS, exact=True), matrix())


def test_plain_data_about_a_model_is_copied():
    info = {"notes": {"list": ["a", ("b", ["c"])]}}
    model = pbos.train((WORDS, matrix()), preset="pbos", epochs=1, info=info)
    smaller = model.compress(dtype="int8")
    info["notes"]["list"][1][1].append("d")
    info["notes"]["more"] = 1
    for one in (model, smaller):
        assert one.info["notes"] == {"list": ["a", ("b", ["c"])]}


def test_what_nobody_else_can_write_is_not_copied(tmp_path):
    """So that a large table is not in memory twice."""
    settings = {"preset": "pbos", "epochs": 1, "keep_targets": True}
    read_only_matrix = matrix()
    read_only_matrix.flags.writeable = False
    np.save(tmp_path / "vectors.npy", matrix())
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    WordVectors(WORDS, matrix()).write(tmp_path / "table.vec")
    WordVectors(WORDS, matrix()).write(tmp_path / "table.npz")
    read = [WordVectors.read(tmp_path / name) for name in ("table.vec", "table.npz")]
    for array in (read_only_matrix, mapped, *(table.vectors for table in read)):
        model = pbos.train((WORDS, array), **settings)
        for one in (model, model.with_targets((WORDS, array)), copy.copy(model)):
            assert np.shares_memory(one._target_vectors, array)


def test_a_table_is_a_read_only_view_of_what_it_was_made_of():
    values = matrix()
    assert np.shares_memory(WordVectors(WORDS, values).vectors, values)
    values[0] = 1  # still possible
    with pytest.raises(ValueError, match="read-only"):
        WordVectors(WORDS, values).vectors[0] = 1


def test_counts_that_were_given_stay_apart():
    values = np.arange(8.0)
    counts = WordCounts(WORDS, values)
    values.fill(0)
    assert counts.counts.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


# The collections ------------------------------------------------------------------------------------------------------


def test_every_method_that_changes_a_collection_is_refused():
    """Found by trying them all, with arguments that fit a list or a dict."""
    arguments = [(), (0,), ("b",), (0, "b"), ("b", 0), (["b"],), ({"b": 0},), (2,), (slice(1),), ([("b", 0)],)]
    for kind, example in ((ReadOnlyList, ["b", "a"]), (ReadOnlyDict, {"b": 1, "a": 0})):
        for name, method in inspect.getmembers(kind, callable):
            if name in ("__init__", "__class__", "__new__", "__setattr__", "__init_subclass__", "__subclasshook__"):
                continue
            for some in arguments:
                thing = kind(example)
                with suppress(Exception):
                    method(thing, *some)
                assert thing == example, (name, some)


def test_read_only_collections_are_lists_and_dicts():
    words = pbos.train((WORDS, matrix()), preset="pbos", epochs=1).words
    assert words == WORDS
    assert isinstance(words, list)
    assert words + ["more"] == [*WORDS, "more"]  # noqa: RUF005 (a tuple cannot do this)
    assert words[1:3] == WORDS[1:3]
    assert json.loads(json.dumps(words)) == list(words) == sorted(words)
    for clone in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), list):
        assert type(clone(words)) is list
    data = read_only({"a": [{"b": (1, [2])}]})
    changed = copy.deepcopy(data)
    changed["a"][0]["b"][1].append(3)
    assert (data, changed) == ({"a": [{"b": (1, [2])}]}, {"a": [{"b": (1, [2, 3])}]})


def test_the_config_is_a_copy():
    model = pbos.train((WORDS, matrix()), preset="pbos", epochs=1)
    config = model.config()
    config["info"]["training"].pop("seed")
    assert config.pop("info") != model.info == model.config()["info"]


def test_the_error_says_what_to_do():
    model = pbos.train((WORDS, matrix()), preset="pbos", epochs=1)
    message = "this list cannot be changed, as others use it too; change a copy of it: list"
    with pytest.raises(InputError, match=message):
        model.words.sort()
    with pytest.raises(InputError, match="this dict cannot be changed"):
        model.info["training"]["seed"] = 1
    words = list(model.words)
    words.sort()
    assert model.words == WORDS


def test_owned_arrays():
    array = np.zeros(3)
    view = array[:]
    view.flags.writeable = False
    assert not np.shares_memory(owned(array), array)
    assert not np.shares_memory(owned(view), array)
    assert not owned(array).flags.writeable
    assert owned(locked(view)) is view
    assert not array.flags.writeable
