"""Data sets for evaluation: where each comes from, where it is looked for, and how it is read.

In reading order: the entries and their list, finding them (a folder of yours, the cache, the public address), the
functions that give a set's content by name, one reader for each kind of file.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from pbos.counts import WordCounts, at_commas, at_tabs, is_name, is_number
from pbos.errors import FormatError, InputError, MissingExtraError
from pbos.files import compression, open_bytes, write_whole
from pbos.progress import progress
from pbos.vectors import WordVectors

PathLike = str | os.PathLike[str]
Pair = tuple[str, str, float]  # two words and how similar people find them
Sentence = list[tuple[str, str]]  # words and their tags

VARIABLE = "PBOS_DATA"
SAMPLE = 100  # lines looked at to find out how a file is laid out


@dataclass(frozen=True)
class Dataset:
    """One data set.

    Attributes:
        name: What it is called here: "WS353".
        description: What it is, in a line.
        addresses: Where it is published. The first is the file itself where `downloadable`, else a page.
        licence: Its licence, as far as stated.
        paths: Its files (or its folder) under a data folder.
        read: Takes those files, returns the content.
        downloadable: Whether the first address can be fetched without asking anybody.
        member: The file's name in the archive at that address.
        sha256: Of the published file, unpacked; None where only derived copies are known to us.
    """

    name: str
    description: str
    addresses: tuple[str, ...]
    licence: str
    paths: tuple[str, ...]
    read: Callable[..., Any]
    downloadable: bool = False
    member: str = ""
    sha256: str | None = None

    @property
    def address(self) -> str:
        """The first address; empty where it is not published."""
        return self.addresses[0] if self.addresses else ""


class AffixRow(NamedTuple):
    """A derived word, the affix it was made with, and its stem: "-ion", "abrade", "abrasion"."""

    affix: str
    stem: str
    word: str


# The list -------------------------------------------------------------------------------------------------------------

MULTILINGUAL = {"en": "english", "de": "german", "it": "italian", "ru": "russian"}
ENCODINGS = {"en": ("utf-8",), "de": ("utf-8", "cp1252"), "it": ("utf-8", "cp1252"), "ru": ("utf-8", "cp1251")}
ELTEC = ("https://www.distant-reading.net/eltec/", "novels of 1840-1920")
COMMON_VOICE = ("https://commonvoice.mozilla.org", "Common Voice sentences")
SELFTRAINED = {
    **dict.fromkeys(("cs", "de", "en", "es", "hu", "it", "lv", "ro", "sv"), ELTEC),
    **dict.fromkeys(("ar", "da", "fa", "he", "ru"), ("", "older literature")),
    "tr": ("", "translated software documentation"),
    **dict.fromkeys(("bg", "el", "eu", "hi", "id", "kk", "ta", "vi", "zh"), COMMON_VOICE),
}
UD_LANGUAGES = tuple(sorted(SELFTRAINED.keys() - {"de"}))  # the paper's 23
NOT_STATED = "not stated"

MULTILINGUAL_KINDS = ("WS353", "WS353-rel", "WS353-sim", "SimLex999")
# Of the published files, in the order of MULTILINGUAL_KINDS.
MULTILINGUAL_SHA256 = {
    "en": (
        "d97d2110c00d7ddc564208bcec69caacf4247cd39b391ae63d3df10e33a9b45f",
        "bfc9ffd9a5c312f1e6b6cd296aa8d0468ddcf908e1b437f0d9dd6fc39431dbd5",
        "bb7c5bbf8dddd50ab75e515d875d3a75efe443c15bef12af7a38dcad5d714004",
        "45c129ae6487c83b816be079a5a21277a8ce4ce895bffc6369ecd682f96f1da7",
    ),
    "de": (
        "a5e56d416ec5e3cb9d4ca1774842ac12feab4c9e2cc42a2bfb80a75e94f5136e",
        "a28bb04a1ca7f023410547077448c6529713b0fd4f1574ea86c4701b9b7004a3",
        "d54d0b02d5f26c308c47ee24c4530e0843c788d47e67143849d096059e9147b5",
        "148afca63aebf62971a431b4ad481626b4ef9d7445ee99077faf72c7dfc6d72e",
    ),
    "it": (
        "5369b3c8ffa8d3562eda274c257454fbc5c0e51bb59b54d449cc15dc01eb0410",
        "ba439de851b20e21cec999fdc30c7df5379d8e68b9e7f6047bde0589dd477eec",
        "d1a3a871b4f71c9dff3a4043c21cfc1b69d8d176b61fb00c844cd5eb7785351b",
        "29f283f71e94a7aee47d060371a6ee7859d26aea99eb93d4a57af1fa5cfa2080",
    ),
    "ru": (
        "553aa56a483cabdf6a51ba2651b20ede959b46b7d42adc93ea2a668ab773c5eb",
        "18e42642006a6536211d4c0da99c49b591c0593c0c3fb1a13ce09070db6623ab",
        "55493b13b93d330888ad99dcb4bd57195fd63ab0cb501d3f3681b451010637bf",
        "7bcd8449adf2e46a6805492443019da1e7acc520819fe3a3f719f3da5a722456",
    ),
}


def registry() -> Iterator[Dataset]:
    """Yield every data set known here."""
    yield from english_pairs()
    for language in MULTILINGUAL:
        yield from multilingual_sets(language)
    yield Dataset(
        "affix",
        "derivational morphology: 7,449 derived words with their affix and stem (Lazaridou et al. 2013)",
        ("http://marcobaroni.org/PublicData/affix_complete_set.txt.gz",),
        NOT_STATED,
        ("affix_complete_set.txt",),
        read_affix_file,
        downloadable=True,
        sha256="49955c6ac2087d9d13488847b57ca0df54c51f08044862ccd39c25d280ee1746",
    )
    yield Dataset(
        "unigram",
        "counts of 333,333 English words, Google Web Trillion Word Corpus (the paper's list)",
        ("https://www.kaggle.com/datasets/rtatman/english-word-frequency", "https://norvig.com/ngrams/"),
        "see its page; derived from LDC2006T13",
        ("unigram_freq.csv",),
        WordCounts.read,
        sha256="91beb1a99fd8b0c38f0c4e6f6dd61219a8b8dd40806a73000a0219cdfc1811b1",
    )
    for language in UD_LANGUAGES:
        yield Dataset(
            f"ud-{language}",
            f"words and universal POS tags, Universal Dependencies 1.4 or nearest, {language}: train, dev, test",
            ("https://hdl.handle.net/11234/1-1827", "https://universaldependencies.org"),
            "CC BY-SA or CC BY-NC-SA, by treebank",
            tuple(f"ud-pos/{language}.{part}.tsv.gz" for part in ("train", "dev", "test")),
            read_treebank,
        )
    yield from target_sets()
    yield Dataset(
        "novels-en",
        "99 English novels, 1840-1920, lower-cased and tokenised, a paragraph a line",
        (ELTEC[0],),
        "CC BY 4.0, texts in the public domain",
        ("corpus/novels-en.txt.gz",),
        Path,
    )


def english_pairs() -> Iterator[Dataset]:
    """Yield the four English similarity sets."""
    yield Dataset(
        "WS353",
        "WordSim-353: 353 English pairs, relatedness (Finkelstein et al. 2002)",
        (
            "https://gabrilovich.com/resources/data/wordsim353/wordsim353.zip",
            "https://gabrilovich.com/resources/data/wordsim353/wordsim353.html",
        ),
        "CC BY 4.0",
        ("similarity/wordsim353.tab",),
        read_pairs,
        downloadable=True,
        member="combined.tab",
    )
    yield Dataset(
        "RareWord",
        "Stanford RareWord: 2,034 English pairs with rare words (Luong et al. 2013)",
        (
            "https://nlp.stanford.edu/~lmthang/morphoNLM/rw.zip",
            "https://nlp.stanford.edu/~lmthang/morphoNLM/",
        ),
        NOT_STATED,
        ("similarity/rareword.txt",),
        read_pairs,
        downloadable=True,
        member="rw.txt",
    )
    yield Dataset(
        "Card-660",
        "Cambridge Rare Word Dataset: 660 English pairs, many terms of several words (Pilehvar et al. 2018)",
        ("https://pilehvar.github.io/card-660/dataset.tsv", "https://pilehvar.github.io/card-660/"),
        NOT_STATED,
        ("similarity/card660.tsv",),
        read_pairs,
        downloadable=True,
        sha256="0cfae4d9ee596c4dd745a138f49c99e74c31a8e171bc4108b62d243607a6c1a8",
    )
    yield Dataset(
        "SimLex999",
        "SimLex-999: 999 English pairs, similarity and not relatedness (Hill et al. 2015)",
        ("https://fh295.github.io/SimLex-999.zip", "https://fh295.github.io/simlex.html"),
        NOT_STATED,
        ("similarity/simlex999.txt",),
        read_pairs,
        downloadable=True,
        member="SimLex-999.txt",
    )


def multilingual_sets(language: str) -> Iterator[Dataset]:
    """Yield the four similarity sets of Leviant and Reichart in one language."""
    full = MULTILINGUAL[language]
    base = "https://raw.githubusercontent.com/iraleviant/eval-multilingual-simlex/master/evaluation/"
    files = (f"wordsim353-{full}.txt", f"wordsim353-{full}-rel.txt", f"wordsim353-{full}-sim.txt", f"simlex-{full}.txt")
    sizes = ("350 pairs", "252 of its pairs, relatedness", "201 of its pairs, similarity", "999 pairs")
    rows = zip(MULTILINGUAL_KINDS, files, sizes, MULTILINGUAL_SHA256[language], strict=True)
    for kind, file, size, sha256 in rows:
        folder = "" if kind == "SimLex999" else "ws-353/"
        yield Dataset(
            f"{kind}-{language}",
            f"{kind.split('-')[0]} in {full.capitalize()}, judged anew: {size} (Leviant and Reichart 2015)",
            (base + folder + file, "https://leviants.com/multilingual-simlex999-and-wordsim353/"),
            NOT_STATED,
            (f"similarity/multilingual/{file}",),
            partial(read_pairs, encodings=ENCODINGS[language]),
            downloadable=True,
            sha256=sha256,
        )


def target_sets() -> Iterator[Dataset]:
    """Yield the folders of target vectors."""
    published = (
        (
            "minilm-en",
            "100,000 English words x 300, from the sentence transformer all-MiniLM-L6-v2",
            "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
            "Apache-2.0",
        ),
        (
            "googlenews-en-8k",
            "the 8,000 most frequent words of Google News word2vec x 300",
            "https://code.google.com/archive/p/word2vec/",
            NOT_STATED,
        ),
        (
            "glove840b-en-10k",
            "9,910 common words of GloVe 840B x 300, from 8 bits a value",
            "https://nlp.stanford.edu/projects/glove/",
            "PDDL",
        ),
    )
    for name, description, address, licence in published:
        yield Dataset(name, description, (address,), licence, (f"vectors/{name}",), read_targets)
    for language, (address, text) in sorted(SELFTRAINED.items()):
        name = f"selftrained-{language}"
        description = f"skip-gram vectors x 64 and counts, trained for pbos on {text}, {language}; not published"
        addresses = (address,) if address else ()
        yield Dataset(name, description, addresses, "that of the text", (f"vectors/{name}",), read_targets)


# Finding --------------------------------------------------------------------------------------------------------------


def get(name: str) -> Dataset:
    """Return the entry of that name; capitals do not matter.

    >>> get("ws353").paths
    ('similarity/wordsim353.tab',)
    """
    known = {entry.name.lower(): entry for entry in DATASETS.values()}
    if name.lower() in known:
        return known[name.lower()]
    near = [known[key].name for key in difflib.get_close_matches(name.lower(), known, n=4, cutoff=0.5)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"some are: {', '.join(list(DATASETS)[:4])}"
    raise InputError(f"unknown data set {name!r}; {hint}")


def find(name: str, data: PathLike | None = None) -> list[Path] | None:
    """Return a set's files if they are at hand: in the folder `data` or PBOS_DATA, else in the cache; None if not."""
    entry = get(name)
    for root in roots(data):
        paths = [root / path for path in entry.paths]
        if all(path.exists() for path in paths):
            return paths
    return None


def roots(data: PathLike | None) -> list[Path]:
    """Return the folders to look into, in order."""
    chosen = data or os.environ.get(VARIABLE)
    found = []
    if chosen:
        if not Path(chosen).is_dir():
            whose = "" if data else f", which {VARIABLE} names"
            raise InputError(f"no folder of data at {os.fspath(chosen)}{whose}")
        found.append(Path(chosen))
    cache = cache_folder()
    return found if cache is None else [*found, cache]


def cache_folder() -> Path | None:
    """Return the folder that holds what was downloaded; None where nothing can have been."""
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("pbos"))


def locate(name: str, data: PathLike | None = None) -> list[Path]:
    """Return a set's files, downloaded first if they are neither in the data folder nor in the cache."""
    found = find(name, data)
    if found is not None:
        return found
    entry = get(name)
    if entry.downloadable:
        return [fetch(entry)]
    where = f"it is described at {' and '.join(entry.addresses)}" if entry.addresses else "it is not published"
    raise InputError(f"{entry.name} is not at hand; {where}; {advice(entry)}")


def advice(entry: Dataset) -> str:
    """Say where to put a set's files."""
    return f"put {', '.join(entry.paths)} into a folder and name that folder with --data or {VARIABLE}"


def fetch(entry: Dataset) -> Path:
    """Download a set of one file into the cache, unpacked and checked."""
    try:
        import pooch
    except ImportError:
        raise MissingExtraError(f"{entry.name} is not at hand, and fetching it", "eval") from None
    address, content = entry.address, io.BytesIO()
    try:
        with progress(f"fetching {entry.name}", None, None):
            pooch.HTTPDownloader(timeout=60)(address, content, None)
    except OSError as error:  # what requests raises is one
        reason = type(error).__name__
        raise InputError(
            f"{entry.name} is not at hand and could not be fetched from {address} ({reason}); "
            f"fetch it in another way, then {advice(entry)}"
        ) from error
    data = unpacked(content.getvalue(), entry)
    found = hashlib.sha256(data).hexdigest()
    if entry.sha256 not in (None, found):
        raise FormatError(
            f"{entry.name}: the file at {address} is not the one we know (sha256 {found}); "
            f"if you trust it, {advice(entry)}"
        )
    target = Path(pooch.os_cache("pbos")) / entry.paths[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(target) as stream:
        stream.write(data)
    return target


def unpacked(data: bytes, entry: Dataset) -> bytes:
    """Take a set's file out of what was downloaded."""
    try:
        if data.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                names = [name for name in archive.namelist() if PurePosixPath(name).name == entry.member]
                if not names:
                    raise FormatError(f"{entry.address}: the archive holds no {entry.member}; {advice(entry)}")
                return archive.read(names[0])
        return gzip.decompress(data) if compression(data) == "gz" else data
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise FormatError(f"{entry.address}: the archive is damaged ({error}); try again later") from None


def available(data: PathLike | None = None) -> list[tuple[Dataset, Path | None]]:
    """Return every data set and where it is at hand (its first file or its folder); None where it is not."""
    found = [(entry, find(entry.name, data)) for entry in DATASETS.values()]
    return [(entry, paths[0] if paths else None) for entry, paths in found]


# Content by name ------------------------------------------------------------------------------------------------------


def load(name: str, data: PathLike | None = None) -> Any:
    """Return a set's content, as its reader gives it.

    Args:
        name: Its name, see `available`.
        data: A folder of data sets; None for the one PBOS_DATA names, if any.
    """
    return get(name).read(*locate(name, data))


def pairs(name: str, data: PathLike | None = None) -> list[Pair]:
    """Return a similarity set: word, word, score."""
    content: list[Pair] = load(name, data)
    return content


def multilingual_pairs(language: str, data: PathLike | None = None) -> dict[str, list[Pair]]:
    """Return the four similarity sets of a language (en, de, it, ru): WS353, WS353-rel, WS353-sim, SimLex999."""
    if language not in MULTILINGUAL:
        raise InputError(f"no similarity sets in {language!r}; choose one of: {', '.join(MULTILINGUAL)}")
    return {kind: pairs(f"{kind}-{language}", data) for kind in MULTILINGUAL_KINDS}


def read_affixes(data: PathLike | None = None) -> list[AffixRow]:
    """Return the derivational morphology set."""
    content: list[AffixRow] = load("affix", data)
    return content


def sentences(language: str, part: str, data: PathLike | None = None) -> list[Sentence]:
    """Return a part of a treebank (train, dev or test): sentences of words and tags."""
    parts = ("train", "dev", "test")
    if part not in parts:
        raise InputError(f"unknown part of a treebank: {part!r}; choose one of: {', '.join(parts)}")
    return read_sentences(locate(f"ud-{language}", data)[parts.index(part)])


def counts(data: PathLike | None = None) -> WordCounts:
    """Return the counts of English words that the paper uses."""
    return WordCounts.read(locate("unigram", data)[0])


def vectors_folder(name: str, data: PathLike | None = None) -> Path:
    """Return the folder of target vectors of that name; it may be one of your own under `vectors/`."""
    chosen = data or os.environ.get(VARIABLE)
    if chosen and (Path(chosen) / "vectors" / name).is_dir():
        return Path(chosen) / "vectors" / name
    return locate(name, data)[0]


def vectors(name: str, data: PathLike | None = None, *, limit: int | None = None) -> WordVectors:
    """Return target vectors, most frequent word first; of the first `limit` words if given."""
    return WordVectors.read(vectors_folder(name, data), limit=limit, progress=False)


def own_counts(name: str, data: PathLike | None = None) -> WordCounts | None:
    """Return the counts that lie beside target vectors, from the same text; None where there are none."""
    return read_own_counts(vectors_folder(name, data))


def corpus(data: PathLike | None = None) -> Path:
    """Return the file of English novels, a paragraph a line."""
    return locate("novels-en", data)[0]


# Readers --------------------------------------------------------------------------------------------------------------


def read_pairs(path: PathLike, *, encodings: tuple[str, ...] = ("utf-8",)) -> list[Pair]:
    """Read word pairs and their scores: three columns, separated by tabs, commas or spaces; a header is optional.

    The score is the first column after the words that holds numbers. Words stay as they are, but for white space around
    them.

    Args:
        path: The file, perhaps compressed; lines may end in any way.
        encodings: To be tried in this order.
    """
    lines = read_lines(path, encodings)
    split = likely_split([text for _, text in lines[:SAMPLE]])
    rows = [(number, [field.strip() for field in split(text)]) for number, text in lines]
    score_at = likely_score([fields for _, fields in rows[:SAMPLE]])
    first = rows[0][1]
    if len(rows) > 1 and len(first) > score_at and is_name(first[score_at]):
        rows = rows[1:]
    return [pair_of(path, number, fields, score_at) for number, fields in rows]


def at_white_space(line: str) -> list[str]:
    """Split at runs of white space."""
    return line.split()


def likely_split(lines: list[str]) -> Callable[[str], list[str]]:
    """Find the separator: the first of tabs, commas and white space that makes a pair and a number of most lines."""

    def fits(split: Callable[[str], list[str]]) -> bool:
        return 2 * sum(any(map(is_number, split(line)[2:])) for line in lines) >= len(lines)

    return next((split for split in (at_tabs, at_commas) if fits(split)), at_white_space)


def likely_score(rows: list[list[str]]) -> int:
    """Find the first column after the two words that holds a number in most rows; 2 where none does."""
    for at in range(2, max(map(len, rows))):
        if 2 * sum(len(row) > at and is_number(row[at]) for row in rows) >= len(rows):
            return at
    return 2


def pair_of(path: PathLike, number: int, fields: list[str], score_at: int) -> Pair:
    """Turn a line's fields into a pair."""
    if len(fields) <= score_at or not all(fields[:2]) or not is_number(fields[score_at]):
        raise FormatError(
            f"{os.fspath(path)}, line {number}: expected two words and a score, got: {' | '.join(fields)[:80]!r}; "
            "separate them by tabs, commas or spaces, the same in every line"
        )
    return fields[0], fields[1], float(fields[score_at])


def read_lines(path: PathLike, encodings: tuple[str, ...] = ("utf-8",)) -> list[tuple[int, str]]:
    """Read the lines that are not blank, with their numbers; they end in newline, carriage return or both."""
    lines = [(number, line) for number, line in all_lines(path, encodings) if line.strip()]
    if not lines:
        raise FormatError(f"{os.fspath(path)}: the file is empty")
    return lines


def all_lines(path: PathLike, encodings: tuple[str, ...] = ("utf-8",)) -> list[tuple[int, str]]:
    """Read all lines with their numbers, from 1."""
    with open_bytes(path) as stream:
        data = stream.read().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for encoding in encodings:
        try:
            return list(enumerate(data.decode(encoding).split("\n"), 1))
        except UnicodeDecodeError as error:
            place = data.count(b"\n", 0, error.start) + 1
    names = " nor ".join(encodings)
    raise FormatError(f"{os.fspath(path)}, line {place}: not {names}; convert the file to UTF-8")


def read_affix_file(path: PathLike) -> list[AffixRow]:
    """Read the derivational morphology set: a header, then affix, stem, its tag, derived word and more, by tabs."""
    rows = []
    for number, line in read_lines(path)[1:]:
        fields = line.split("\t")
        if len(fields) < 4 or not all((fields[0], fields[1], fields[3])):
            raise FormatError(
                f"{os.fspath(path)}, line {number}: expected affix, stem, tag and derived word, got: {line[:80]!r}"
            )
        rows.append(AffixRow(fields[0], fields[1], fields[3]))
    return rows


def read_sentences(path: PathLike) -> list[Sentence]:
    """Read tagged sentences: a word, a tab and its tag a line, or CoNLL-U; a blank line after each sentence."""
    found: list[Sentence] = [[]]
    for number, line in all_lines(path):
        if line.startswith("# "):  # a comment in CoNLL-U; the word "#" has a tab behind it
            continue
        fields = line.split("\t")
        if not line.strip():
            found.append([])
        elif len(fields) == 2 and all(fields):
            found[-1].append((fields[0], fields[1]))
        elif len(fields) == 10:
            if fields[0].isdecimal():  # 3-4 is a word written as one but tagged as two, 3.1 one not written at all
                found[-1].append((fields[1], fields[3]))
        else:
            raise FormatError(
                f"{os.fspath(path)}, line {number}: expected a word, a tab and its tag, got: {line[:80]!r}"
            )
    return [sentence for sentence in found if sentence]


def read_treebank(train: PathLike, dev: PathLike, test: PathLike) -> dict[str, list[Sentence]]:
    """Read the three parts of a treebank."""
    return {"train": read_sentences(train), "dev": read_sentences(dev), "test": read_sentences(test)}


def read_targets(folder: PathLike) -> tuple[WordVectors, WordCounts | None]:
    """Read a folder of target vectors, and the counts beside them if there are any."""
    return WordVectors.read(folder, progress=False), read_own_counts(folder)


def read_own_counts(folder: PathLike) -> WordCounts | None:
    """Read the counts in a folder of target vectors; None where there are none."""
    file = Path(folder) / "counts.tsv.gz"
    return WordCounts.read(file) if file.exists() else None


DATASETS = {entry.name: entry for entry in registry()}
"""Every data set by name."""
