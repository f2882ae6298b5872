"""The hot loops, compiled by Numba: arrays in, arrays out; no strings, no Python objects, no I/O.

Each kernel also runs as plain Python with NUMBA_DISABLE_JIT=1. All of them release the GIL, so threads run in parallel.

Compiling takes seconds, once per machine, so kernels are written to compile fast: loops instead of NumPy's functions
and of assignments to slices (which compile their error messages, too), few types of arrays, and no literal arguments
(each one is another signature).
"""

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np
from numba import njit
from numba.core import event, serialize
from numba.core.caching import FunctionCache

from pbos.errors import warn
from pbos.jobs.interrupts import interruptible
from pbos.jobs.threads import check_interrupt

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

part = njit(**OPTIONS, no_cpython_wrapper=True)  # a function that only kernels call
_warned = False


def kernel(function, **options):
    """Compile a function that Python calls; what was compiled is kept in Numba's cache, if that can be written."""
    global _warned
    compiled, why = njit(**OPTIONS, **options)(function), ""
    try:
        compiled._cache = Cache(function)
    except RuntimeError:  # Numba's "no locator available"
        why = "compiled code cannot be kept, as neither pbos's folder nor the home folder can be written"
    except PermissionError as error:
        why = f"compiled code in {error.filename} is not used, as other users may have written it"
    if why and not _warned:
        _warned = True
        warn(f"{why}, so every process compiles for some seconds; set NUMBA_CACHE_DIR to a folder of your own")
    if hasattr(compiled, "_compile_for_args"):  # else it is plain Python
        compiled._compile_for_args = interruptible(compiled._compile_for_args)
    return compiled


if hasattr(serialize, "_numba_unpickle"):
    # The only Python code that runs in a call of a compiled kernel: what Ctrl-C raises there comes out as SystemError.
    serialize._numba_unpickle = cache(serialize._numba_unpickle)


class Announcer(event.Listener):  # type: ignore[misc]  # Numba is untyped
    """Says on a terminal, once, that kernels are being compiled, which takes seconds."""

    announced = False

    def on_start(self, event):
        """Say so, if the function is one of ours."""
        if not self.announced and event.data["dispatcher"].py_func.__module__.startswith("pbos."):
            self.announced = True
            with suppress(AttributeError, OSError, ValueError):  # no stderr, nobody reads it, or it is closed
                if sys.stderr.isatty():
                    sys.stderr.write("pbos: compiling for this machine, the first time only; this takes some seconds\n")

    def on_end(self, event):
        """Ignore."""


class Interrupter(event.Listener):  # type: ignore[misc]  # Numba is untyped
    """Ends compiling between two passes, if the call that needs it is interrupted; a kernel can take some seconds."""

    def on_start(self, event):
        """Raise KeyboardInterrupt, if there was a Ctrl-C."""
        check_interrupt()

    def on_end(self, event):
        """Ignore."""


event.register("numba:compile", Announcer())
event.register("numba:run_pass", Interrupter())

STAMP = tuple(
    (file.name, file.stat().st_mtime, file.stat().st_size) for file in sorted(Path(__file__).parent.glob("*.py"))
)


class Cache(FunctionCache):  # type: ignore[misc]  # Numba is untyped
    """Numba's cache, safe for many processes at once, also if some are killed, and on a full disk.

    Numba numbers the files of a function, and writes which signature is in which file before the file itself. So after
    a change of the source there is a moment in which the old file is taken for the new one, and two processes can give
    the same number to different signatures. It also looks only at the file of a kernel, not at those of its parts.

    What is in it is run, so it must be ours. In pbos's own folder, who could change it could change pbos.
    """

    def __init__(self, function):
        super().__init__(function)
        in_package = Path(self._cache_path).parent == Path(function.__code__.co_filename).parent
        if not in_package and not is_ours(self._cache_path):
            raise PermissionError(errno.EPERM, "other users may have written it", self._cache_path)
        self._cache_file._source_stamp = self._cache_file._source_stamp, STAMP

    def load_overload(self, sig, target_context):
        """Return what was compiled for a signature, or None."""
        with self._locked("LOCK_SH"):
            return super().load_overload(sig, target_context)

    def save_overload(self, sig, data):
        """Keep what was compiled for a signature."""
        with suppress(OSError):  # a full disk: the next process compiles again
            self._impl.locator.ensure_cache_path()
            with self._locked("LOCK_EX"):
                if not self._cache_file._load_index():
                    for stale in Path(self._cache_path).glob(f"{self._impl.filename_base}.*.nbc"):
                        stale.unlink()
                super().save_overload(sig, data)

    @contextmanager
    def _locked(self, kind):
        handle = None
        with suppress(OSError):  # no cache yet, or one that is only read
            handle = os.open(Path(self._cache_path, "pbos.lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if handle is not None and fcntl is not None:
                with suppress(OSError):  # some disks have no locks
                    fcntl.flock(handle, getattr(fcntl, kind))
            yield
        finally:
            if handle is not None:
                os.close(handle)


@cache
def is_ours(folder):
    """Return whether a folder and what is in it belongs to this user or to root, and not everybody can write it."""
    for path in (folder, *os.scandir(folder)) if hasattr(os, "geteuid") else ():
        with suppress(FileNotFoundError):  # another process has just replaced it
            found = os.lstat(path)
            if found.st_uid not in (0, os.geteuid()) or found.st_mode & stat.S_IWOTH:
                return False
    return True


@part
def grown(array, size):
    """Return a larger copy of an array; the rest is not filled."""
    larger = np.empty(size, array.dtype)
    for at in range(array.size):
        larger[at] = array[at]
    return larger
