"""The command line, `pbos`: each command reads, calls the library and writes.

Start with `app.py`, which lists the commands. They share their options (`options.py`), and how they read and write
(`common.py`).

Heavy modules are imported inside commands, so that `pbos --help` answers at once; nearly all others are imported in
`main`, when Ctrl-C is handled.
"""

import sys

INTERRUPTED = "pbos: interrupted; nothing was left half-written\n"
try:
    import signal

    from pbos.jobs.interrupts import Interrupts
except KeyboardInterrupt:  # Python still handles Ctrl-C here
    sys.stderr.write(INTERRUPTED)
    sys.exit(130)


class Interrupted(SystemExit):
    """Ctrl-C: ends the program after cleaning up; libraries that handle KeyboardInterrupt themselves let it pass."""


def interrupt(*_: object) -> None:
    """End the program."""
    raise Interrupted(130)


def main() -> None:
    """Run a command; Ctrl-C ends it, a second one at once. Ctrl-C after the work is done has no effect."""
    try:
        with Interrupts(interrupt, again=signal.SIG_DFL, afterwards=signal.SIG_IGN):
            import atexit
            import gc

            from pbos.cli.app import start

            atexit.register(gc.freeze)  # saves a quarter of a second, in which all Numba objects would be collected
            start()
    except Interrupted:
        sys.stderr.write(INTERRUPTED)
        raise
