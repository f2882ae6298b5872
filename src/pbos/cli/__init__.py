"""The command line: `pbos`. Thin: each command reads, calls the library and writes.

Nothing heavy is imported before a command needs it, so that `pbos --help` answers at once.
"""

import atexit
import gc


def main() -> None:
    """Run the command line."""
    from pbos.cli.app import app

    atexit.register(gc.freeze)  # at its end, Python need not look through all of Numba once more: a quarter of a second
    app()
