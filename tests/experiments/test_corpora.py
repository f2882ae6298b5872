"""Texts made from public collections: a small repository and a small package stand for the real ones."""

import gzip
import json
import shutil
import subprocess

import pytest

from experiments import corpora
from experiments.__main__ import main
from experiments.corpora import Source, from_lines, from_manual

NOVEL = """<TEI><teiHeader><p>not this</p></teiHeader><text><body><head>Short</head>
<p>It was <hi>d</hi>ark &amp;
 stormy tonight.</p><p>Fin<!-- x --></p><l>The wind blew hard</l>{}</body></text></TEI>"""


def git(folder, *arguments):
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository that stands for github.com/owner/novels; returns its commit."""
    folder = tmp_path / "novels"
    (folder / "level1").mkdir(parents=True)
    git(folder, "init", "--quiet")
    for number, last in enumerate(("", "<p>The wind blew hard</p>", "<p>Left out for its name</p>")):
        (folder / "level1" / f"öne {number}.xml").write_text(NOVEL.format(last), encoding="utf-8")
    (folder / "README.md").write_text("not part of the text")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "x")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{folder}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/owner/novels")
    return git(folder, "rev-parse", "HEAD")


def test_a_repository_becomes_a_text_of_distinct_paragraphs(tmp_path, monkeypatch, repository, capsys):
    source = Source("owner/novels", "CC0", r"level1/.*\.xml", commit=repository, without=".*2.xml")
    monkeypatch.setattr(corpora, "CORPORA", {"en": [source]})
    main(["corpora", "--output", str(tmp_path / "texts")])
    text = (tmp_path / "texts" / "en.txt").read_text(encoding="utf-8")
    assert text == "It was dark & stormy tonight.\nThe wind blew hard\n"
    about = json.loads((tmp_path / "texts" / "en.json").read_text())
    assert about["tokens"] == 9 and about["lines"] == 2
    assert about["sources"][0]["commit"] == repository and about["sources"][0]["license"] == "CC0"
    main(["corpora", "en", "--output", str(tmp_path / "texts")])
    assert "already there" in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")
def test_a_package_becomes_a_text_without_english(tmp_path, monkeypatch):
    pages = tmp_path / "tree" / "man"
    (tmp_path / "tree" / "DEBIAN").mkdir(parents=True)
    control = "Package: pages\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
    (tmp_path / "tree" / "DEBIAN" / "control").write_text(control)
    pages.mkdir()
    page = ".TH X 1\n.SH AÇIKLAMA\nBu komut\n.B dosyayı\naçar.\n.PP\nOpens the file.\n"
    (pages / "x.1.gz").write_bytes(gzip.compress(page.encode()))
    (tmp_path / "sources").mkdir()
    built = tmp_path / "sources" / "pages_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", str(tmp_path / "tree"), str(built)], check=True, capture_output=True)
    monkeypatch.setattr(corpora, "CORPORA", {"tr": [Source("pages", "GPL", r"\./man/", from_manual)]})
    corpora.make([], tmp_path)
    assert (tmp_path / "tr.txt").read_text(encoding="utf-8") == "Bu komut dosyayı açar.\n"


def test_only_every_nth_file_is_taken(tmp_path, monkeypatch, repository):
    source = Source("owner/novels", "CC0", r"level1/", from_lines, commit=repository, every=2)
    folder = tmp_path / "sources"
    folder.mkdir()
    texts = list(corpora.texts(source, corpora.fetch(source, folder)))
    assert texts == [NOVEL.format(""), NOVEL.format("<p>Left out for its name</p>")]


def test_an_unknown_language_is_one_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["corpora", "xx", "--output", str(tmp_path)])
    assert "no text in 'xx'" in capsys.readouterr().err
