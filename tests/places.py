"""Where the tests find things, and what they do without them."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("PBOS_DATA") or ROOT.parent / "shared" / "data")
FIXTURES = ROOT / "tests" / "fixtures"


def skip_or_fail(reason):
    """Skip a test that cannot run here; with PBOS_REQUIRE_DATA=1, as in .ci/run, it fails instead."""
    if os.environ.get("PBOS_REQUIRE_DATA") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
