"""Extensions of mkdocs for this repository: pages outside docs/, and doctest sessions in docstrings.

The functions are mkdocs hooks; the class is a griffe extension, used by mkdocstrings.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md", "results/*.md", "results/*.png")
LINK = re.compile(r"(\]\()([^)#:]+)((?:#[^)]*)?\))")  # the relative target of [text](target#anchor)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and images outside docs/."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            uri = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite relative links, which point to files of the repository, to pages of the site."""
    in_docs = page.file.generated_by is None
    path = f"docs/{page.file.src_uri}" if in_docs else page.file.src_uri

    def on_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[2]))
        target = target.removeprefix("docs/")
        return link[1] + posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".") + link[3]

    return LINK.sub(on_site, markdown)


class Sessions(griffe.Extension):
    """Fences the `>>>` sessions in docstrings, which Markdown would render as block quotes."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Fence the sessions in the docstring of a documented object."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    """Return the docstring with every session in a fenced code block; a session ends at a blank line."""
    return re.sub(
        r"^( *)>>> (?:.+\n?)+",
        lambda session: f"{session[1]}```pycon\n{session[0].rstrip()}\n{session[1]}```\n",
        docstring,
        flags=re.MULTILINE,
    )
