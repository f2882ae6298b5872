"""The documentation is correct: every code block runs, every link works, the site builds."""

import dataclasses
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import warnings
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import pbos
from pbos.cli import main
from pbos.settings import PRESETS, Preset

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")))
NOT_CODE = {"text", "json", "toml", "ini", "yaml"}  # languages of blocks that are not run
REASONS = {  # for not running a block
    "needs a download",
    "needs a GPU",
    "needs Haystack",
    "needs LangChain",
    "runs until it is stopped",
    "takes hours",
    "test_examples.py does",
    "test_hub.py does, with a server",
    "test_remote.py does, with an object store",
    "test_server.py does, with a server",
    "test_spark_ray.py does",
}
INSTALL = re.compile(r'^pip install "?pbos\b.*\n', re.MULTILINE)  # not run; another test checks its extras
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
sys.path.insert(0, str(ROOT / "scripts"))


# -- blocks ------------------------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """A fenced code block."""

    line: int
    language: str
    text: str
    not_run: str | None  # the reason given in a comment before it


MARK = re.compile(r"<!-- not run in the tests: (.*?) -->\s*\Z")
FENCE = re.compile(r"^( *)```(\w*).*\n((?:.*\n)*?)\1```$", re.MULTILINE)


def blocks_of(page):
    found = []
    for fence in FENCE.finditer(page):
        mark = MARK.search(page, 0, fence.start())
        line = page.count("\n", 0, fence.start()) + 2
        found.append(Block(line, fence[2], textwrap.dedent(fence[3]), mark and mark[1]))
    assert page.count("```") == 2 * len(found), "a fence is not closed"
    marks = len(re.findall(r"^ *<!-- not run in the tests", page, re.MULTILINE))
    assert marks == sum(block.not_run is not None for block in found), "a comment about tests has no block after it"
    return found


def run_page(page, name, folder):
    """Run the blocks of a page in order, in one folder and with shared Python variables."""
    names = {"__name__": "__main__"}
    for block in blocks_of(page):
        place = f"{name}, line {block.line}"
        if block.not_run is not None:
            assert block.not_run in REASONS, f"{place}: {block.not_run!r} is not one of the reasons {sorted(REASONS)}"
        elif block.language == "python" and ">>>" in block.text:
            run_session(block, names, name)
        elif block.language == "python":
            exec(compile(block.text, place, "exec"), names)
        elif block.language == "sh":
            code, written = in_shell(INSTALL.sub("", block.text), folder)
            assert code == 0, f"{place}: {written}"
        elif block.language == "console":
            run_console(block, folder, place)
        else:
            assert block.language in NOT_CODE, (
                f"{place}: name the language: python, sh, console, or text if it is not run"
            )


def run_session(block, names, name):
    session = doctest.DocTestParser().get_doctest(block.text, names, name, name, block.line - 1)
    report = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(session, out=report.append, clear_globs=False)
    names.update(session.globs)
    assert result.failed == 0, "".join(report)


def run_console(block, folder, place):
    """Compare the output of each `$ command`, on both streams, with the lines below it."""
    assert block.text.startswith("$ "), f"{place}: a console block starts with $ and a command"
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, expected = re.fullmatch(r"((?:.*\\\n)*.*\n)((?:.*\n)*)", part).groups()
        _, written = in_shell(command, folder)
        same = doctest.OutputChecker().check_output(expected.strip(), written.strip(), doctest.ELLIPSIS)
        assert same, f"{place}: {command}{written}"


def in_shell(script, folder):
    """Run a script; return its exit code and its output on both streams.

    A script of plain `pbos` commands runs in this process, which saves starting Python for each.
    """
    lines = [line for line in script.splitlines() if shlex.split(line, comments=True)]
    if all(re.match(r"pbos [^|<>&;$`*?(){}\\~]*$", line) for line in lines):
        return in_this_process(lines)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def in_this_process(commands):
    written = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    code = 0
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("default", pbos.PbosWarning)  # an error in other tests
        patch.setattr(sys, "stdout", written)
        patch.setattr(sys, "stderr", written)
        for command in commands:
            patch.setattr(sys, "argv", shlex.split(command, comments=True))
            try:
                main()
            except SystemExit as stop:
                code = code or stop.code or 0
    return code, written.buffer.getvalue().decode()


@pytest.fixture(scope="module")
def small_files(tmp_path_factory):
    """Small versions of the files that pages expect the reader to have; other files are made by the pages."""
    folder = tmp_path_factory.mktemp("files")
    model = pbos.load()
    words = [word for word in model.words[:1200] if word.isalpha()][:1000]
    vectors = pbos.WordVectors(words, model.embed(words)[:, :8])
    vectors.write(folder / "vectors.vec")
    vectors.write(folder / "glove.840B.300d.txt", format="glove")
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words[:50]))
    (folder / "unigram_freq.csv").write_text("".join(f"{word},{1000 - at}\n" for at, word in enumerate(words)))
    draws = np.random.default_rng(0).zipf(1.3, (3000, 12)) % len(words)
    lines = [" ".join(words[at] for at in line) for line in draws]
    (folder / "corpus.txt").write_text("\n".join(lines[:2000]))
    (folder / "more.txt").write_text("\n".join(lines[2000:]))
    pbos.train(vectors, lam=0.01, limit=300).save(folder / "my-model")

    twos = [words[at : at + 2] for at in range(0, 60, 2)]
    pairs = [f"{one}\t{two}\t{score % 11}\n" for score, (one, two) in enumerate(twos)]
    (folder / "pairs.tsv").write_text("".join(pairs))
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_runs_and_gives_the_output_shown(page, small_files, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    shutil.copytree(small_files, folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PBOS_DATA", raising=False)
    monkeypatch.setenv("PBOS_CACHE", str(tmp_path / "cache"))
    text = (ROOT / page).read_text(encoding="utf-8")
    if re.search(r"^(\$ )?pbos train.* -o my-model$", text, re.MULTILINE):  # the page makes it itself
        shutil.rmtree(folder / "my-model")
    run_page(text, page, folder)


@pytest.mark.parametrize(
    ("page", "what"),
    [
        ("```python\n>>> 1 + 1\n3\n```\n", "1 + 1"),
        ("```python\nx = 1\n```\n\n```python\nassert x == 2, 'one'\n```\n", "one"),
        ("```python\n>>> x = 1\n```\n```python\nassert x == 2, 'one'\n```\n", "one"),
        ("```sh\ntest -e nowhere\n```\n", "line 2"),
        ("```sh\npip install pbos\nfalse\n```\n", "line 2"),
        ("```sh\nfalse | true\n```\n", "line 2"),
        ("```console\n$ echo one\none\n$ echo two\nthree\n```\n", "echo two"),
        ("```console\n$ echo one >&2\n```\n", "echo one"),
        ("```console\n$ pbos segment -m nowhere higher\n```\n", "nowhere"),
        ("- a list\n\n    ```sh\n    false\n    ```\n", "line 4"),
        ("```\n>>> 1 + 1\n3\n```\n", "name the language"),
        ("```bash\nfalse\n```\n", "name the language"),
        ("<!-- not run in the tests: too lazy -->\n```sh\nfalse\n```\n", "too lazy"),
        ("<!-- not run in the tests: needs a GPU -->\n\nText.\n\n```sh\ntrue\n```\n", "no block after it"),
        ("```sh\nfalse\n", "not closed"),
    ],
)
def test_a_wrong_block_is_found(page, what, tmp_path):
    with pytest.raises(AssertionError, match=re.escape(what)):
        run_page(page, "page", tmp_path)


def test_a_block_is_not_run_for_a_known_reason(tmp_path):
    run_page("<!-- not run in the tests: needs a GPU -->\n\n```sh\nfalse\n```\n", "page", tmp_path)
    run_page("```text\nfalse\n```\n", "page", tmp_path)
    run_page('```sh\npip install "pbos[arrow]"  # and nothing else\n```\n', "page", tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_sessions_are_in_blocks_and_extras_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert ">>>" not in FENCE.sub("", text)
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(
        r"^(\w+) = \[", settings.split("[project.optional-dependencies]")[1].split("\n[")[0], re.MULTILINE
    )
    assert "arrow" in extras
    for named in re.findall(r"pbos\[([\w,]+)\]", text):
        assert set(named.split(",")) <= set(extras)


# -- generated content -------------------------------------------------------------------------------------------------


def test_the_cli_page_is_up_to_date():
    """Compared as a whole if the same version of Typer made it; other versions use another layout."""
    import make_cli_docs

    def names(text):
        sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
        return {section.split("\n")[0]: set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", section)) for section in sections}

    page, made = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), make_cli_docs.content()
    assert names(page) == names(made), "run `make docs`"
    if make_cli_docs.maker() in page:
        assert page == made, "run `make docs`"


def test_the_cli_page_is_the_same_in_any_terminal(monkeypatch):
    import make_cli_docs

    wide = make_cli_docs.content(["segment"])
    for name, value in (("COLUMNS", "40"), ("TERMINAL_WIDTH", "40"), ("FORCE_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    assert make_cli_docs.content(["segment"]) == wide


def settings_table():
    for one in dataclasses.fields(Preset):
        help = one.metadata["help"].translate({ord("|"): r"\|", ord("<"): "&lt;", ord(">"): "&gt;"})
        choices = (
            f" One of: {', '.join(f'`{name}`' for name in one.metadata['choices'])}." if one.metadata["choices"] else ""
        )
        yield f"| `{one.name}` | {help}{choices} | `{getattr(PRESETS['default'], one.name)}` |"


def test_the_reference_has_every_setting():
    table = "\n".join(settings_table())
    assert table in (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8"), f"the table should be:\n{table}"


def test_the_drawing_of_a_lattice_is_up_to_date():
    drawn = pbos.load().lattice("rehydrating").svg()
    assert (ROOT / "docs" / "rehydrating.svg").read_text(encoding="utf-8") == drawn, "run `make docs`"


# -- the site ----------------------------------------------------------------------------------------------------------


def test_the_site_builds_and_loads_nothing_from_other_servers(tmp_path):
    """Built with --strict: every link and anchor exists, every page is in the navigation."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(PAGES) - 2  # README.md is not on the site
    for page in pages:
        tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text(encoding="utf-8"))
        assert not [tag for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)], page
    for page in (tmp_path / "site" / "api").rglob("*.html"):
        assert "<blockquote>" not in page.read_text(encoding="utf-8"), f"{page}: a session that is not in a code block"
    for style in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_the_reference_has_every_public_name():
    reference = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    assert set(pbos.__all__) <= set(re.findall(r"^::: pbos\.(\w+)$", reference, re.MULTILINE))


def test_links_in_the_repository_work():
    results = [f"results/{file.name}" for file in (ROOT / "results").glob("*.md")]
    for page in (*PAGES, "CHANGELOG.md", "benchmarks/README.md", *results):
        text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            assert link.startswith("https://") or ((ROOT / page).parent / link).exists(), f"{page}: {link}"


# -- the package -------------------------------------------------------------------------------------------------------


def test_public_names():
    assert pbos.__all__ == sorted(pbos.__all__)
    assert set(dir(pbos)) == {*pbos.__all__, "__version__"}
    for name in pbos.__all__:
        assert getattr(pbos, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        pbos.nonsense  # noqa: B018


def test_changelog_starts_with_unreleased():
    assert (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1].startswith("Unreleased")


def test_the_wheel_has_the_model_and_the_types(tmp_path):
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"pbos/py.typed", "pbos/data/english/model.safetensors", "pbos/data/english/config.json"} <= names
    assert not [
        name for name in names if "__pycache__" in name or name.startswith(("tests", "benchmarks", "experiments"))
    ]
