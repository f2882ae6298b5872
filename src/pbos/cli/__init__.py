"""The command line, `pbos`: each command reads, calls the library and writes.

Heavy modules are imported inside commands, so that `pbos --help` answers at once; and nearly all others in `main`, when
Ctrl-C is handled.
"""

import sys

INTERRUPTED = "pbos: interrupted; nothing was left half-written\n"
try:
    import signal

    from pbos.jobs.interrupts import Interrupts
except KeyboardInterrupt:  # as yet, Python handles Ctrl-C
    sys.stderr.write(INTERRUPTED)
    sys.exit(130)


class Interrupted(SystemExit):
    """Ctrl-C: ends the program after cleaning up; libraries that handle KeyboardInterrupt themselves let it pass."""


def main() -> None:
    """Run the command line; Ctrl-C ends it, a second one at once. When the work is done, there is nothing to end."""
    try:
        with Interrupts(interrupt, again=signal.SIG_DFL, afterwards=signal.SIG_IGN):
            run()
    except Interrupted:
        sys.stderr.write(INTERRUPTED)
        raise


def interrupt(*_: object) -> None:
    """End the program."""
    raise Interrupted(130)


def run() -> None:
    """Run a command."""
    import atexit
    import gc

    from pbos.cli.streams import prepare_streams

    prepare_streams()
    from pbos.cli.app import guarded, start

    atexit.register(gc.freeze)  # saves the garbage collection of all Numba objects at exit, a quarter of a second
    guarded(start)()
