"""The command line: `pbos`. Thin: each command reads, calls the library and writes.

Nothing heavy is imported before a command needs it, so that `pbos --help` answers at once.
"""


def main() -> None:
    """Run the command line."""
    from pbos.cli.app import app

    app()
