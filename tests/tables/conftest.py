"""Fixtures of the tests of tables."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Write text or bytes to a file whose name says nothing about the format, and return its path."""

    def write_content(content):
        path = tmp_path / "file"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_content
