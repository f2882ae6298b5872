"""The command `pbos compile`."""

from __future__ import annotations

import time

from pbos.cli.common import JsonOption, write, write_json


def compile(json: JsonOption = False) -> None:
    """Compile the code now, so that other commands start at once.

    Otherwise each part is compiled when it is first used, which takes some seconds. Good in a Dockerfile: set
    NUMBA_CACHE_DIR there, to a folder of the image. Code is compiled for the processor of the machine.

    \b
    Examples:
      pbos compile
      NUMBA_CACHE_DIR=/var/cache/pbos pbos compile
    """
    start = time.perf_counter()
    from pbos.cli.compiling import compile_kernels

    count, folder = compile_kernels()
    seconds = time.perf_counter() - start
    if json:
        write_json({"functions": count, "seconds": seconds, "folder": folder})
        return
    where = "kept nowhere: set NUMBA_CACHE_DIR to a folder that can be written" if folder is None else f"in {folder}"
    write(f"{count} functions compiled in {seconds:.0f} s, {where}")
