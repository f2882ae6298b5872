"""Progress bars on stderr; they disappear when done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pbos.errors import for_terminal, one_line

Advance = Callable[..., None]
"""Called as ``advance(steps)`` or ``advance(steps, note="loss 0.01")``."""


@contextmanager
def progress(label: str, total: float | None, show: bool | None = None) -> Iterator[Advance]:
    """Show a bar during a long task of `total` steps, if that is known; by default only if stderr is a terminal."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda steps, note="": None
        return

    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, TextColumn

    columns = *Progress.get_default_columns(), TextColumn("{task.fields[note]}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(for_terminal(one_line(label))), total=total, note="")

        yield lambda steps, **note: bar.update(task, advance=steps, **note)
