"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

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


# A first call may compile a kernel, so no example has a deadline; the profile "thorough" is for hunting.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("thorough", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
