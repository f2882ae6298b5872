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
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

import numpy as np
from numba import njit
from numba.core import event, serialize
from numba.core.caching import FunctionCache

from pbos.errors import warn
from pbos.jobs.interrupts import interruptible
from pbos.jobs.threads import check_interrupt

OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

part = njit(**OPTIONS, no_cpython_wrapper=True)  # a function that only kernels call
warn_once = cache(warn)


def kernel(function, **options):
    """Compile a function that Python calls; what was compiled is kept in Numba's cache, if that can be written."""
    compiled, why = njit(**OPTIONS, **options)(function), ""
    try:
        compiled._cache = Cache(function)
    except RuntimeError:  # Numba's "no locator available"
        why = "compiled code cannot be kept, as neither pbos's folder nor the home folder can be written"
    except PermissionError as error:
        why = f"compiled code in {error.filename} is not used, as other users may have written it"
    if why:
        warn_once(f"{why}, so every process compiles for some seconds; set NUMBA_CACHE_DIR to a folder of your own")
    if hasattr(compiled, "_compile_for_args"):  # else it is plain Python
        compiled._compile_for_args = interruptible(compiled._compile_for_args)
    return compiled


if hasattr(serialize, "_numba_unpickle"):
    # The only Python code that runs in a call of a compiled kernel: what Ctrl-C raises there comes out as SystemError.
    serialize._numba_unpickle = cache(serialize._numba_unpickle)


class Announcer(event.Listener):  # type: ignore[misc]  # Numba is untyped
    """Announces compiling on a terminal, once, and ends it between two passes after a Ctrl-C: it takes seconds."""

    announced = False

    def on_start(self, event):
        """Raise KeyboardInterrupt after a Ctrl-C; announce a function of ours."""
        check_interrupt()
        dispatcher = event.data.get("dispatcher")  # passes have none
        if not self.announced and dispatcher and dispatcher.py_func.__module__.startswith("pbos."):
            self.announced = True
            with suppress(AttributeError, OSError, ValueError):  # no stderr, nobody reads it, or it is closed
                if sys.stderr.isatty():
                    sys.stderr.write("pbos: compiling for this machine, the first time only; this takes some seconds\n")

    def on_end(self, event):
        """Ignore."""


for _kind in ("numba:compile", "numba:run_pass"):
    event.register(_kind, Announcer())

STAMP = [(file.name, file.stat().st_mtime, file.stat().st_size) for file in sorted(Path(__file__).parent.glob("*.py"))]


class Cache(FunctionCache):  # type: ignore[misc]  # Numba is untyped
    """Numba's cache, with three changes.

    - Numba looks only at the file of a kernel. Here a change of any file of this folder makes old code stale.
    - Numba numbers the files of a function, so processes that run at once can take a file of one for that of another.
      Here each process writes files with names of its own.
    - What is in the cache is run, so it must be ours. In pbos's own folder, who could change it could change pbos.
    """

    def __init__(self, function):
        super().__init__(function)
        in_package = Path(self._cache_path).parent == Path(function.__code__.co_filename).parent
        if not in_package and not is_ours(self._cache_path):
            raise PermissionError(errno.EPERM, "other users may have written it", self._cache_path)
        self._cache_file._source_stamp = self._cache_file._source_stamp, STAMP
        self._cache_file._data_name_pattern = f"{self._impl.filename_base}.{uuid4().hex[:12]}-{{number:d}}.nbc"

    def save_overload(self, sig, data):
        """Keep what was compiled for a signature, and remove what was compiled from older sources."""
        with suppress(OSError):  # a full disk: the next process compiles again
            if not self._cache_file._load_index():
                for stale in Path(self._cache_path).glob(f"{self._impl.filename_base}.*.nbc"):
                    stale.unlink()
            super().save_overload(sig, data)


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
