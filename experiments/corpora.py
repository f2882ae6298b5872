"""Makes plain text in eight languages from public collections: one paragraph per line, with its punctuation.

Novels and plays come from git repositories at a fixed commit; manuals from Debian packages, which need apt-get and
dpkg-deb. Nothing of either is executed. docs/evaluation-data.md lists the texts.
"""

from __future__ import annotations

import gzip
import html
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.real_data import run
from pbos.errors import InputError
from pbos.files.atomic import write_whole
from pbos.tables.published import say

FOLDER = Path(__file__).parent / ".cache" / "corpora"
BLOCKS = "p|l|lb|head|h[1-6]|li|td|th|tr|div|title|dt|dd|item|stage|speaker|span|br"  # tags that end a word
MIN_WORDS = 3  # shorter lines are mostly headings and menu entries
ENGLISH = {"the", "of", "and", "to", "is", "this", "with", "from"}
TOKEN = re.compile(r"\w+")


# Formats --------------------------------------------------------------------------------------------------------------


def from_markup(text: str) -> Iterator[str]:
    """Yield the paragraphs of an HTML, TEI or Mallard document.

    >>> list(from_markup("<head>x</head><body><p>One <i>t</i>wo&amp;<lb/>three</p><script>y</script><l>four</l>"))
    ['One two& three', 'four']
    """
    body = text[max(text.find("<body"), 0) :]
    body = re.sub(r"(?s)<!--.*?-->|<(script|style|teiHeader|note|screen|code)\b.*?</\1>", "", body)
    for block in re.split(r"</?(?:p|l|head|h[1-6]|li|td|th|title|dt|dd|item|stage|speaker)\b[^>]*>", body):
        words = re.sub(r"<[^>]*>", "", re.sub(rf"</?(?:{BLOCKS})\b[^>]*>", " ", block))
        if line := " ".join(html.unescape(words).split()):
            yield line


def from_manual(text: str) -> Iterator[str]:
    r"""Yield the paragraphs of a manual page; examples (.nf to .fi) and comments are left out.

    >>> list(from_manual('.TH X 1\n.SH "NAME"\nx \\- does\n.B this\n.nf\ncode\n.fi\n.PP\nMore \\fItext\\fR.\n'))
    ['NAME', 'x - does this', 'More text.']
    """
    text = re.sub(r"(?ms)^\.ig\b.*?^\.\.$|^\.(nf|EX)\b.*?^\.(fi|EE)\b", "", text)
    block: list[str] = []
    for line in [*text.splitlines(), ".PP"]:
        macro = re.match(r"[.']\s*(\w*)\s*(.*)", line)
        if macro and macro[1] in ("B", "I", "BR", "BI", "IR", "IB", "RB", "RI"):
            block.append(macro[2].replace('"', ""))
        elif macro or not line.strip():
            yield from [plain] if (plain := without_escapes(" ".join(block))) else []
            block = [macro[2].replace('"', "")] if macro and macro[1] in ("SH", "SS") else []
            if block and (plain := without_escapes(block.pop())):
                yield plain
        else:
            block.append(line)


def without_escapes(text: str) -> str:
    r"""Remove the escapes of a manual page.

    >>> without_escapes(r"a \fBbold\fR word\-list \(em \*(lqx")
    'a bold word-list x'
    """
    text = re.sub(r"\\f(?:\w|\(..|\[[^]]*\])|\\[*]?(?:\(..|\[[^]]*\])|\\s[-+]?\d|\\[&/|^%,]|\\\".*", "", text)
    return " ".join(re.sub(r"\\(.)", r"\1", text).replace("~", " ").split())


def from_lines(text: str) -> Iterator[str]:
    """Yield the lines of a plain text."""
    yield from (" ".join(line.split()) for line in text.splitlines())


# The list -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Where a text comes from.

    Attributes:
        name: A repository on GitHub, "owner/name", or a Debian package.
        license: Of the text.
        files: A regular expression that the paths of its files match from the start.
        read: Turns a file into paragraphs.
        commit: Of the repository; empty for a package, of which the current version is taken.
        without: Files to leave out: every file that matches this expression.
        every: Take only every n-th file.
    """

    name: str
    license: str
    files: str
    read: Callable[[str], Iterator[str]] = from_markup
    commit: str = ""
    without: str = "$"
    every: int = 1


CC_BY, MPL, PUBLIC = "CC BY 4.0", "MPL-2.0", "public domain"


def novels(language: str, commit: str, *, without: str = "$") -> Source:
    """Return a part of ELTeC, the European Literary Text Collection: 100 novels of 1840 to 1920."""
    return Source(f"COST-ELTeC/ELTeC-{language}", CC_BY, r"level1/.*\.xml", commit=commit, without=without)


def help_pages(language: str) -> Source:
    """Return the help of LibreOffice."""
    return Source(f"libreoffice-help-{language}", MPL, r".*\.html")


def gnome(language: str) -> Source:
    """Return the manual of GNOME."""
    return Source("gnome-user-docs", "CC BY-SA 3.0", rf".*/help/{language}/.*\.page")


def common_voice(language: str, *, without: str = "$") -> Source:
    """Return sentences that Common Voice collected to be read aloud."""
    commit = "bc2cc85e101dc70332aa1e55e89f547ab6874b05"
    return Source("common-voice/common-voice", "CC0", f"server/data/{language}/", from_lines, commit, without)


CORPORA: dict[str, list[Source]] = {
    # the largest files are left out where a mirror may not have them: two German novels, Turkish sentences
    "de": [novels("deu", "d1eed488bd579ee95151b1a291a0056a90c36fa4", without=r".*DEU0(24|48)")],
    "it": [novels("ita", "100a4851ed1a1092f082c0ecd109f621c8f62ed4")],
    "hu": [novels("hun", "5977c034202ff3be32f035a3c3782e97f84f90dc")],
    "cs": [novels("cze", "25cb4e935424a0254cf736bc88cfb8217721de15")],
    "ru": [
        Source("dracor-org/rusdracor", "CC0", "tei/.*xml", commit="b178c0401ffcf58b209104e90e38ff718f188fd8"),
        Source("COST-ELTeC/ELTeC-rus", PUBLIC, "level0/.*xml", commit="fc5014be10be291a000d7f7397c1f1ff60746d2b"),
        help_pages("ru"),
    ],
    "he": [
        Source(
            "projectbenyehuda/public_domain_dump",
            PUBLIC,
            r"txt_stripped/.*\.txt",
            from_lines,
            commit="9e793b9968bf648a32982e18c12be70e27acbaa7",
            every=10,
        )
    ],
    "tr": [
        common_voice("tr", without=".*/wiki"),
        Source("manpages-tr", "GPL and others, by page", r".*/man/tr/.*\.gz", from_manual),
        help_pages("tr"),
        gnome("tr"),
    ],
    "eu": [common_voice("eu"), help_pages("eu")],
}


# Making ---------------------------------------------------------------------------------------------------------------


def make(languages: Iterable[str], folder: Path = FOLDER) -> None:
    """Fetch and convert the texts, or all if none is named; those that are there already are skipped."""
    chosen = list(languages) or list(CORPORA)
    unknown = [language for language in chosen if language not in CORPORA]
    if unknown:
        raise InputError(f"no text in {unknown[0]!r}; choose from: {', '.join(CORPORA)}")
    (folder / "sources").mkdir(parents=True, exist_ok=True)
    for language in chosen:
        target = folder / f"{language}.txt"
        if target.exists():
            say(f"{language}: already there")
            continue
        counts = {"lines": 0, "tokens": 0}
        archives = [fetch(source, folder / "sources") for source in CORPORA[language]]
        with write_whole(target) as stream:
            for line in distinct(zip(CORPORA[language], archives, strict=True)):
                stream.write(f"{line}\n".encode())
                counts["lines"] += 1
                counts["tokens"] += len(TOKEN.findall(line))
        sources = [
            {key: value for key, value in asdict(source).items() if key != "read"} | {"archive": archive.name}
            for source, archive in zip(CORPORA[language], archives, strict=True)
        ]
        about = {**counts, "MB": round(target.stat().st_size / 1e6, 1), "sources": sources}
        target.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        say(f"{language}: {counts['tokens']:,} tokens, {about['MB']} MB")


def distinct(sources: Iterable[tuple[Source, Path]]) -> Iterator[str]:
    """Yield the lines of all sources, each once, without short ones and without English in translated manuals."""
    seen = set()
    for source, archive in sources:
        translated = not source.commit
        for text in texts(source, archive):
            for line in source.read(text):
                words = TOKEN.findall(line)
                if len(words) >= MIN_WORDS and line not in seen and not (translated and is_english(words)):
                    seen.add(line)
                    yield line


def is_english(words: list[str]) -> bool:
    """Return whether a line was left untranslated, by words that the languages here do not have.

    >>> is_english("Opens the file".split()), is_english("Dosyayı açar".split())
    (True, False)
    """
    return not ENGLISH.isdisjoint(word.lower() for word in words)


def fetch(source: Source, folder: Path) -> Path:
    """Return a bare clone or a package in a folder; it is fetched unless it is there."""
    if source.commit:
        clone = folder / source.name.replace("/", "+")
        if not clone.exists():
            say(f"cloning {source.name}")
            run(["git", "clone", "--quiet", "--bare", f"https://github.com/{source.name}", clone.name], folder)
        return clone
    if not (found := sorted(folder.glob(f"{source.name}_*.deb"))):
        say(f"downloading {source.name}")
        run(["apt-get", "download", "--quiet", source.name], folder)
        found = sorted(folder.glob(f"{source.name}_*.deb"))
    return found[-1]


def texts(source: Source, archive: Path) -> Iterator[str]:
    """Yield the texts of a source's files, in the order of their paths in the archive."""
    if source.commit:
        paths = run(["git", "-c", "core.quotePath=off", "ls-tree", "-r", "--name-only", source.commit], archive)
        names = [name for name in paths.splitlines() if is_wanted(source, name)]
        command = ["git", "cat-file", "--batch"]
        asked = "".join(f"{source.commit}:{name}\n" for name in names[:: source.every])
        done = subprocess.run(command, cwd=archive, input=asked.encode(), stdout=subprocess.PIPE, check=True)
        stream = io.BytesIO(done.stdout)
        while header := stream.readline().split():
            yield decoded(stream.read(int(header[-1])))
            stream.readline()
    else:
        done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE, check=True)
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as opened:
            members = [member for member in opened if member.isfile() and is_wanted(source, member.name)]
            for member in sorted(members, key=lambda member: member.name)[:: source.every]:
                content = opened.extractfile(member).read()  # type: ignore[union-attr]
                yield decoded(gzip.decompress(content) if member.name.endswith(".gz") else content)


def is_wanted(source: Source, name: str) -> bool:
    """Return whether a file of an archive is one of a source's."""
    return bool(re.match(source.files, name)) and not re.match(source.without, name)


def decoded(content: bytes) -> str:
    """Return a text in UTF-8; bytes that are not become U+FFFD."""
    return content.decode("utf-8-sig", errors="replace")
