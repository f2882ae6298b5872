"""Fixtures for all tests."""

import atexit
import gc
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from pbos.cli import main

DATA = Path(os.environ.get("PBOS_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data beside the checkout (or at PBOS_DATA); without it the test is skipped, but not in CI."""
    if DATA.is_dir():
        return DATA
    reason = f"no data at {DATA}; set PBOS_DATA to run this test"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Run a command in an empty folder; return its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["pbos", *map(str, arguments)])
        if stdin is not None:
            (tmp_path / ".stdin").write_text(stdin, encoding="utf-8", newline="")
            monkeypatch.setattr(sys, "stdin", (tmp_path / ".stdin").open(encoding="utf-8"))
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return code, out, re.sub(r"pbos: compiling for this machine.*\n", "", err)  # which has a test of its own

    return run


def pytest_unconfigure():
    """Undo what a command does to end at once: other libraries would report what is left as leaks."""
    atexit.unregister(gc.freeze)


# A first call may compile a kernel, so no example has a deadline; the profile "thorough" is for hunting.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("thorough", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
