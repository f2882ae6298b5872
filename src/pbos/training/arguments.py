"""The arguments of training, checked before any work is done: for train, learn, complete and the command line."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from pbos.errors import InputError, whole_number
from pbos.files.model_folder import check_writable, plain, target_of
from pbos.files.paths import absolute, is_remote, resolve_links, to_local_path
from pbos.jobs.pools import check_scheduler
from pbos.jobs.threads import thread_count
from pbos.jobs.workspace import check_folder
from pbos.settings import DTYPES, Preset, check_choice

LEAST_MEMORY = 512 << 20


class Checked(NamedTuple):
    """The arguments of `train` that are not used as they are given."""

    recipe: Preset
    seed: int
    memory: int | None  # in bytes
    parts: Path | None  # the folder for large arrays, which may be needed


def check_arguments(
    *,
    preset: str = "default",
    limit: int | None = None,
    heldout: float = 0.0,
    keep_targets: bool | None = None,
    dtype: str = "float32",
    output: str | PathLike[str] | None = None,
    memory: int | str | None = None,
    scheduler: Any = None,
    parts: str | PathLike[str] | None = None,
    info: Mapping[str, Any] | None = None,
    threads: int | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **settings: Any,
) -> Checked:
    """Raise an error about an argument of `train` that cannot be used."""
    arguments = "vectors", "counts", *inspect.signature(check_arguments).parameters
    recipe = Preset.named(preset, settings, others=arguments)
    if limit is not None:
        whole_number("limit", limit, 1)
    if isinstance(heldout, bool) or not (isinstance(heldout, Real) and 0 <= heldout < 1):
        raise InputError(f"heldout must be at least 0 and below 1, got {heldout}")
    check_choice("dtype", dtype, DTYPES)
    check_info(info)
    if device is not None and not re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d+)?", str(device)):
        raise InputError(f'unknown device {device!r}; choose cpu, cuda, mps or xpu, or one of several, as in "cuda:1"')
    if device not in (None, "cpu") and recipe.solver == "sgd":
        raise InputError(f'device {device!r} needs solver="ridge": SGD takes one word after the other')
    check_scheduler(scheduler)
    thread_count(threads)
    has_parts = memory is not None or scheduler is not None
    for name, value in {"parts": parts, "scheduler": scheduler, "memory": memory}.items():
        if value is not None and output is None:
            raise InputError(f"{name} needs the folder of the model; pass output")
    if parts is not None and not has_parts:
        raise InputError("parts is a folder for what memory or scheduler needs; pass one of them, or leave it out")
    most = None if memory is None else memory_size(memory)
    if output is not None:
        check_writable(output)
    folder = folder_for_parts(output, parts) if output is not None and has_parts else None
    return Checked(recipe, whole_number("seed", seed, 0), most, folder)


def folder_for_parts(output: str | PathLike[str], parts: str | PathLike[str] | None) -> Path:
    """Return the folder for the large arrays of a job: by default next to the output, or here if that is remote."""
    target = str(output).rstrip("/")
    if parts is None:
        parts = f"{target.rpartition('/')[2] if is_remote(target) else target}.parts"
    if is_remote(parts):
        raise InputError(f"parts must be a folder that can be mapped into memory, got {parts}")
    folder = absolute(to_local_path(parts).expanduser())
    if not folder.parent.is_dir():
        raise InputError(f"cannot keep parts in {folder}: the folder {folder.parent} does not exist")
    one, other = resolve_links(folder), Path(target_of(target))
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise InputError(f"cannot keep parts in {folder}: it is removed at the end, and the model is {output}")
    check_folder(folder)
    return folder


def check_info(info: Mapping[str, Any] | None, own: str = "training") -> None:
    """Raise InputError if no model can be saved with this, or if it has the name of a report of pbos's own."""
    try:
        plain({**(info or {})})
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"info must be a mapping of names to plain data, as in JSON: {error}") from None
    if info and own in info:
        raise InputError(f'info has the name "{own}", under which pbos puts its own report; choose another')


def memory_size(memory: int | str) -> int:
    """Return an amount of memory in bytes.

    >>> memory_size("1.5G")
    1610612736
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(memory).strip(), re.IGNORECASE)
    size = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0.0
    if not 0 < size < math.inf:
        raise InputError(f"memory must be a number of bytes or such as '4G', got {memory!r}")
    if size < LEAST_MEMORY:
        raise InputError(f"memory must be at least {LEAST_MEMORY >> 20}M, got {memory!r}")
    return int(size)
