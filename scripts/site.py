"""What mkdocs needs to know about this repository: pages outside of docs/, and sessions in docstrings.

mkdocs calls the functions (they are its hooks), mkdocstrings the class (an extension of griffe).
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
LINK = re.compile(r"(\]\()([^)#:]+)((?:#[^)]*)?\))")  # the target of [text](target#anchor), if it is relative


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that lie outside of docs/."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            place = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have links lead where their targets are on the site; in the repository they lead to files."""
    in_docs = page.file.generated_by is None
    place = f"docs/{page.file.src_uri}" if in_docs else page.file.src_uri

    def on_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link[2]))
        target = target.removeprefix("docs/")
        return link[1] + posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".") + link[3]

    return LINK.sub(on_site, markdown)


class Sessions(griffe.Extension):
    """Makes code blocks of the `>>>` sessions in docstrings, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Look at the docstring of everything that is documented."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    """Put every session, which ends at a blank line or at the end, between fences."""
    return re.sub(
        r"^( *)>>> (?:.+\n?)+",
        lambda session: f"{session[1]}```pycon\n{session[0].rstrip()}\n{session[1]}```\n",
        docstring,
        flags=re.MULTILINE,
    )
