"""The data sets of the experiments: where each comes from, where it is looked for, and how it is read.

A data set is looked for in the data folder (`data`, or the variable PBOS_DATA), then in the cache of downloads, and is
downloaded if that is possible without an account.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pbos.errors import FormatError, InputError
from pbos.evaluation.datasets import Pair, read_pairs
from pbos.files.atomic import write_whole_folder
from pbos.files.paths import PathLike, open_bytes, read_lines, to_local_path, user_cache
from pbos.settings import check_choice
from pbos.tables.published import download, take_out

Sentence = list[tuple[str, str]]  # words and their tags

VARIABLE = "PBOS_DATA"
ENGLISH = ("WS353", "RareWord", "Card-660", "SimLex999")
PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class Dataset:
    """One data set.

    Attributes:
        name: Its name: "WS353".
        description: One line about it.
        page: The page that describes it.
        license: Its license, as far as stated.
        paths: Its files in a data folder.
        url: Where to download it; empty if that needs an account or a choice.
        member: The file's name, if `url` is a zip archive.
        sha256: Of the published file, unpacked; empty if we only know derived copies.
        encoding: What to try if the file is not UTF-8.
    """

    name: str
    description: str
    page: str
    license: str
    paths: tuple[str, ...]
    url: str = ""
    member: str = ""
    sha256: str = ""
    encoding: str = "UTF-8"


class AffixRow(NamedTuple):
    """An affix, a stem, and the word derived from both: "-ion", "abrade", "abrasion"."""

    affix: str
    stem: str
    word: str


# The list -------------------------------------------------------------------------------------------------------------

NOT_STATED = "not stated"
MULTILINGUAL = {  # name and fallback encoding
    "en": ("english", "utf-8"),
    "de": ("german", "cp1252"),
    "it": ("italian", "cp1252"),
    "ru": ("russian", "cp1251"),
}
MULTILINGUAL_KINDS = {  # file name and description
    "WS353": ("ws-353/wordsim353-{}.txt", "350 pairs of WordSim-353"),
    "WS353-rel": ("ws-353/wordsim353-{}-rel.txt", "252 pairs of WordSim-353, relatedness"),
    "WS353-sim": ("ws-353/wordsim353-{}-sim.txt", "201 pairs of WordSim-353, similarity"),
    "SimLex999": ("simlex-{}.txt", "999 pairs of SimLex-999"),
}
MULTILINGUAL_SHA256 = {  # in the order of MULTILINGUAL_KINDS
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
UD_LANGUAGES = (  # the paper's 23
    *("ar", "bg", "cs", "da", "el", "en", "es", "eu", "fa", "he", "hi", "hu"),
    *("id", "it", "kk", "lv", "ro", "ru", "sv", "ta", "tr", "vi", "zh"),
)


def registry() -> Iterator[Dataset]:
    """Yield every data set."""
    yield Dataset(
        "WS353",
        "WordSim-353: 353 English pairs, relatedness (Finkelstein et al. 2002)",
        "https://gabrilovich.com/resources/data/wordsim353/wordsim353.html",
        "CC BY 4.0",
        ("similarity/wordsim353.tab",),
        url="https://gabrilovich.com/resources/data/wordsim353/wordsim353.zip",
        member="combined.tab",
    )
    yield Dataset(
        "RareWord",
        "Stanford RareWord: 2,034 English pairs with rare words (Luong et al. 2013)",
        "https://nlp.stanford.edu/~lmthang/morphoNLM/",
        NOT_STATED,
        ("similarity/rareword.txt",),
        url="https://nlp.stanford.edu/~lmthang/morphoNLM/rw.zip",
        member="rw.txt",
    )
    yield Dataset(
        "Card-660",
        "Cambridge Rare Word Dataset: 660 English pairs, many of them multi-word terms (Pilehvar et al. 2018)",
        "https://pilehvar.github.io/card-660/",
        NOT_STATED,
        ("similarity/card660.tsv",),
        url="https://pilehvar.github.io/card-660/dataset.tsv",
        sha256="0cfae4d9ee596c4dd745a138f49c99e74c31a8e171bc4108b62d243607a6c1a8",
    )
    yield Dataset(
        "SimLex999",
        "SimLex-999: 999 English pairs, similarity rather than relatedness (Hill et al. 2015)",
        "https://fh295.github.io/simlex.html",
        NOT_STATED,
        ("similarity/simlex999.txt",),
        url="https://fh295.github.io/SimLex-999.zip",
        member="SimLex-999.txt",
    )
    for code, (language, encoding) in MULTILINGUAL.items():
        for (kind, (file, pairs)), sha256 in zip(MULTILINGUAL_KINDS.items(), MULTILINGUAL_SHA256[code], strict=True):
            published = file.format(language)
            yield Dataset(
                f"{kind}-{code}",
                f"{pairs}, translated to {language.capitalize()} and rated anew (Leviant and Reichart 2015)",
                "https://leviants.com/multilingual-simlex999-and-wordsim353/",
                NOT_STATED,
                (f"similarity/multilingual/{PurePosixPath(published).name}",),
                url=f"https://raw.githubusercontent.com/iraleviant/eval-multilingual-simlex/master/evaluation/{published}",
                sha256=sha256,
                encoding=encoding,
            )
    yield Dataset(
        "affix",
        "derivational morphology: 7,449 derived words with their affix and stem (Lazaridou et al. 2013)",
        "http://marcobaroni.org/PublicData/affix_complete_set.txt.gz",
        NOT_STATED,
        ("affix_complete_set.txt",),
        url="http://marcobaroni.org/PublicData/affix_complete_set.txt.gz",
        sha256="49955c6ac2087d9d13488847b57ca0df54c51f08044862ccd39c25d280ee1746",
    )
    yield Dataset(
        "morphemes",
        "Morpho Challenge 2010: 1,686 English words, cut into their morphemes (Kurimo et al. 2010)",
        "http://morpho.aalto.fi/events/morphochallenge2010/datasets.shtml",
        NOT_STATED,
        ("goldstd_combined.segmentation.eng",),
        url="https://raw.githubusercontent.com/AlexeySorokin/NeuralMorphemeSegmentation/master/morphochal10data/goldstd_combined.segmentation.eng",
        sha256="5b9383293fbd1ff7ddc61148b1529b434948677c2ffc9c61a81a3907ec779643",
    )
    for language in UD_LANGUAGES:
        yield Dataset(
            f"ud-{language}",
            f"words and universal POS tags, Universal Dependencies 1.4 or the nearest version, {language}",
            "https://hdl.handle.net/11234/1-1827",
            "CC BY-SA or CC BY-NC-SA, depending on the treebank",
            tuple(f"ud-pos/{language}.{part}.tsv.gz" for part in PARTS),
        )


DATASETS = {entry.name: entry for entry in registry()}
"""Every data set by name."""


def get(name: str) -> Dataset:
    """Return the data set with that name; case does not matter.

    >>> get("ws353").paths
    ('similarity/wordsim353.tab',)
    """
    known = {entry.name.lower(): entry for entry in DATASETS.values()}
    if name.lower() in known:
        return known[name.lower()]
    near = [known[key].name for key in difflib.get_close_matches(name.lower(), known, n=4, cutoff=0.5)]
    hint = f"did you mean {' or '.join(near)}?" if near else "docs/evaluation-data.md lists them"
    raise InputError(f"unknown data set {name!r}; {hint}")


# Finding and downloading ----------------------------------------------------------------------------------------------


def locate(name: str, data: PathLike | None = None) -> list[Path]:
    """Return a data set's files; downloads them if they are neither in the data folder nor in the cache."""
    entry = get(name)
    if files := local_files(entry, data):
        return files
    if entry.url:
        return [fetch(entry)]
    raise InputError(f"{entry.name} is missing; see {entry.page}; {advice(entry)}")


def local_files(entry: Dataset, data: PathLike | None) -> list[Path]:
    """Return a data set's files: all of them in the data folder, or its download in the cache, or an empty list."""
    folder = data_folder(data)
    files = [folder / path for path in entry.paths] if folder else []
    if files and all(file.exists() for file in files):
        return files
    return list((user_cache("data") / entry.name).glob("*"))


def data_folder(data: PathLike | None) -> Path | None:
    """Return the given data folder, or the one that PBOS_DATA names; None if neither is set."""
    chosen = data or os.environ.get(VARIABLE)
    if not chosen:
        return None
    folder = to_local_path(chosen)
    if not folder.is_dir():
        source = "" if data else f" (from the variable {VARIABLE})"
        raise InputError(f"the data folder {folder} {'is a file' if folder.exists() else 'does not exist'}{source}")
    return folder


def advice(entry: Dataset) -> str:
    """Return where to put a data set's files."""
    return f"put {', '.join(entry.paths)} into a folder and pass that folder with --data or {VARIABLE}"


def fetch(entry: Dataset) -> Path:
    """Download a data set into the cache, check it, and return its file."""
    folder = user_cache("data") / entry.name
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with write_whole_folder(folder) as fresh, tempfile.TemporaryDirectory(dir=fresh) as scratch:
            archive = download(entry.url, Path(scratch))
            file = take_out(archive, entry.member, fresh) if entry.member else archive.rename(fresh / archive.name)
            with open_bytes(file) as stream:
                digest = hashlib.sha256(stream.read()).hexdigest()
            if entry.sha256 not in ("", digest):
                raise FormatError(f"its content has changed (sha256 {digest})")
    except InputError as error:
        raise InputError(f"{entry.name} is missing: {error}; {advice(entry)}") from error
    except FormatError as error:
        raise FormatError(f"{entry.name}: the file at {entry.url} cannot be used: {error}; {advice(entry)}") from None
    return folder / file.name


# Content --------------------------------------------------------------------------------------------------------------


def pairs(name: str, data: PathLike | None = None) -> list[Pair]:
    """Return a similarity set: word, word, score.

    Args:
        name: Its name: "WS353", "SimLex999-de"; docs/evaluation-data.md lists them.
        data: A folder of data sets; None for the one that PBOS_DATA names, if any.
    """
    entry = get(name)
    if not entry.paths[0].startswith("similarity/"):
        raise InputError(f"{entry.name} is not a similarity data set; some are: {', '.join(ENGLISH)}")
    return read_pairs(locate(name, data)[0], encoding=entry.encoding)


def read_affixes(data: PathLike | None = None) -> list[AffixRow]:
    """Return the derivational morphology set: after a header, lines of affix, stem, its tag, derived word and more."""
    path, rows = locate("affix", data)[0], []
    for number, line in read_lines(path)[1:]:
        fields = line.split("\t")
        if len(fields) < 4 or not all((fields[0], fields[1], fields[3])):
            raise bad_line(path, number, "affix, stem, tag and derived word", line)
        rows.append(AffixRow(fields[0], fields[1], fields[3]))
    return rows


def read_morphemes(data: PathLike | None = None) -> dict[str, list[list[str]]]:
    """Return the gold morphemes of English words; a word can have more than one analysis.

    A line is a word, a tab, and its analyses, separated by commas. An analysis has a morpheme and its label in each
    field, `us:use_V ing:+PCP1`; a morpheme that is not spelled is `~`.
    """
    path, found = locate("morphemes", data)[0], {}
    for number, line in read_lines(path):
        word, _, rest = line.partition("\t")
        analyses = [
            [morpheme for field in analysis.split() if (morpheme := field.rpartition(":")[0]) != "~"]
            for analysis in rest.split(", ")
        ]
        if any("".join(morphemes) != word for morphemes in analyses):
            raise bad_line(path, number, "a word and morphemes that spell it", line)
        found[word] = analyses
    return found


def sentences(language: str, part: str, data: PathLike | None = None) -> list[Sentence]:
    """Return a part of a treebank ("train", "dev" or "test"): sentences of words and tags."""
    check_choice("language", language, UD_LANGUAGES)
    check_choice("part of a treebank", part, PARTS)
    return read_sentences(locate(f"ud-{language}", data)[PARTS.index(part)])


def bad_line(path: PathLike, number: int, expected: str, got: str) -> FormatError:
    """Return the error about a line."""
    return FormatError(f"{os.fspath(path)}, line {number}: expected {expected}, got: {got[:80]!r}")


def read_sentences(path: PathLike) -> list[Sentence]:
    """Read tagged sentences: a word, a tab and its tag per line, or CoNLL-U; a blank line ends a sentence."""
    found: list[Sentence] = [[]]
    for number, line in read_lines(path, keep_blank=True):
        if line.startswith("# "):  # a comment in CoNLL-U; the word "#" is followed by a tab
            continue
        fields = line.split("\t")
        if not line.strip():
            found.append([])
        elif len(fields) == 2 and all(fields):
            found[-1].append((fields[0], fields[1]))
        elif len(fields) == 10:
            if fields[0].isdecimal():  # not 3-4, a contraction of two tokens, nor 3.1, an empty node
                found[-1].append((fields[1], fields[3]))
        else:
            raise bad_line(path, number, "a word, a tab and its tag", line)
    return [sentence for sentence in found if sentence]
