"""The structure of the package: who imports whom, and how many functions embed a word."""

import ast
import importlib
import itertools
import pickle
import re
import sys
from pathlib import Path

import pytest

import pbos

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(pbos.__file__).resolve().parent
FILES = {file.relative_to(SOURCE).as_posix(): file for file in sorted(SOURCE.rglob("*.py"))}
LATTICE_KERNELS = {f"kernels/{name}.py" for name in ("lattice", "paths")}


# Imports --------------------------------------------------------------------------------------------------------------


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_of(tree, everywhere):
    """Yield the import statements of a module: all, or only those that run when it is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif everywhere or not (is_type_checking(node) or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
            yield from imports_of(node, everywhere)


def file_of(module):
    """The file of a module of pbos, or None."""
    path = module.removeprefix("pbos").lstrip(".").replace(".", "/")
    names = [f"{path}.py", f"{path}/__init__.py"] if path else ["__init__.py"]
    return next((name for name in names if name in FILES), None)


def imported_files(name, everywhere=False):
    """The files of pbos that a file imports."""
    found = set()
    package = ["pbos", *name.split("/")[:-1]]
    for node in imports_of(ast.parse(FILES[name].read_text(encoding="utf-8")), everywhere):
        if isinstance(node, ast.Import):
            modules = [one.name for one in node.names]
        else:
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            modules = [f"{module}.{one.name}" if file_of(f"{module}.{one.name}") else module for one in node.names]
        found |= {file_of(module) for module in modules if module.split(".")[0] == "pbos"}
    return found - {None, name}


def test_imports_are_found():
    """The parser of this test, on files whose imports are easy to see."""
    assert "kernels/lattice.py" in imported_files("words/subwords.py")
    assert "training/gpu.py" not in imported_files("training/solve.py")
    assert "training/gpu.py" in imported_files("training/solve.py", everywhere=True)


def test_only_subwords_imports_the_lattice_kernels():
    importers = {
        name
        for name in FILES
        if imported_files(name, everywhere=True) & LATTICE_KERNELS and not name.startswith("kernels/")
    }
    assert importers == {"words/subwords.py"}


# The rooms ------------------------------------------------------------------------------------------------------------

LAZY = {  # imports inside of functions that go down: readers of Arrow columns, an extra; counting, to make a segmenter
    ("segmenter.py", "training/counting.py"),
    ("corpus/embed_files.py", "adapters/arrow.py"),
}


def rooms():
    """The rooms in the table of CONTRIBUTING.md, in order: folders and files."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## The rooms")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [room.rstrip("/") for row in rows for room in re.findall(r"`([^`]+)`", row)]


def room_of(name):
    return name.split("/")[0]


def test_the_table_of_rooms_is_complete():
    faces = {"__init__.py", "__main__.py"}
    assert {room_of(name) for name in FILES} - faces == set(rooms())
    assert len(rooms()) == len(set(rooms()))


def test_imports_only_go_up_the_table():
    """Left to right, then down; files of a room may import each other."""
    order = rooms()
    wrong = [
        f"{name} imports {other}"
        for name in FILES
        if room_of(name) in order
        for other in sorted(imported_files(name, everywhere=True))
        if room_of(other) in order and order.index(room_of(other)) > order.index(room_of(name))
        if (name, other) not in LAZY
    ]
    assert wrong == []


def test_no_module_imports_itself_in_a_circle():
    imports = {name: imported_files(name) for name in FILES if name != "__init__.py"}
    done = set()
    while ready := {name for name in imports if name not in done and imports[name] <= done | {"__init__.py"}}:
        done |= ready
    assert set(imports) - done == set()


# The path of a word ---------------------------------------------------------------------------------------------------


def calls_of_pbos(function):
    """The functions of pbos that are called, in order, as (file, name)."""
    calls = []

    def record(frame, event, argument):
        file = Path(frame.f_code.co_filename)
        if event == "call" and SOURCE in file.parents:
            calls.append((file.relative_to(SOURCE).as_posix(), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(("word", "most"), [("unfriendliest", 10), ("well-known", 11), ("naïveté", 15)])
def test_a_word_is_embedded_in_few_steps(word, most):
    model = pbos.load()
    model.embed([word])
    calls = calls_of_pbos(lambda: model.embed([word]))
    files = [file for file, _ in calls]
    assert len(calls) <= most, calls
    assert len(set(files)) <= (4 if word.isascii() else 5), files
    assert sum(one != other for one, other in itertools.pairwise(files)) <= 8, files
    assert [name for _, name in calls].count("normalize") == 1  # a word is normalized once


def test_the_first_word_is_embedded_in_few_steps():
    pbos.load().embed("unfriendliest")
    model = pbos.load()
    assert len(calls_of_pbos(lambda: model.embed("unfriendliest"))) <= 30  # however many characters there are


# Old names ------------------------------------------------------------------------------------------------------------


def test_pickles_of_version_1_load():
    """Made by version 0.1, when modules had other names: a model, vectors, counts, a spelling, an explanation."""
    file = ROOT / "tests" / "golden" / "pickle-v1.pkl"
    found = pickle.loads(file.read_bytes())
    assert found["model"].embed("highest") == pytest.approx([0.7466582, 0.5823611, -0.36198997])  # as printed then
    assert (found["vectors"].words, found["counts"].words) == (["high", "higher"], ["a", "b"])
    assert str(found["explanation"]) == str(found["model"].explain("higher"))


@pytest.mark.parametrize("name", ["vectors", "published", "subwords"])
def test_modules_that_moved_are_found_by_their_old_names(name):
    assert getattr(pbos, name) is importlib.import_module(f"pbos.{name}")
    assert pbos.vectors.WordVectors is pbos.WordVectors
    assert pbos.published.find("fasttext-crawl-de").license == "CC BY-SA 3.0"
    with pytest.raises(AttributeError):
        pbos.vectors.nothing  # noqa: B018
