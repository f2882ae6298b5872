"""What the steps of one training run share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pbos.jobs.pools import Pool, Threads
from pbos.jobs.workspace import Workspace
from pbos.settings import PRESETS, Preset


@dataclass(frozen=True)
class Run:
    """The settings of a training run, and where its work is done."""

    preset: Preset = PRESETS["default"]
    seed: int = 0
    threads: int | None = None
    device: Any = None  # of PyTorch; None for the CPU
    progress: bool | None = False
    pool: Pool = field(default_factory=Threads)
    work: Workspace = field(default_factory=Workspace)
