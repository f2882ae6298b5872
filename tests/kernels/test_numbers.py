"""Parsing numbers and lines, against Python and NumPy."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pbos.kernels.numbers import parse_lines, parse_number


def parsed(text):
    return parse_number(np.frombuffer(text.encode() + b"\n", np.uint8), 0)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(3.4028234663852886e38)
@example(1e-45)
@example(-0.0)
def test_nine_digits_restore_every_float32(value):
    text = f"{value:.9g}"
    back, end = parsed(text)
    assert end == len(text)
    assert np.float32(back).tobytes() == np.float32(value).tobytes()


NUMBERS = st.from_regex(r"[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@settings(max_examples=500)
@given(NUMBERS | st.floats(allow_nan=False, allow_infinity=False).map(repr))
@example("0." + "0" * 60 + "1")
@example("1" * 39)
@example("340282356779733661637539395458142568447")
@example("0e999999999999999999999")
@example("1e-999999999999999999999")
@example("1" + "0" * 50 + "e-50")
def test_other_numbers_are_within_a_float32_step(text):
    expected = np.float32(np.clip(float(text), -3.4028234663852886e38, 3.4028234663852886e38))
    value, end = parsed(text)
    if end < 0:
        assert abs(float(text)) > 3.4028235e38
        return
    assert end == len(text)
    assert abs(float(np.float32(value)) - float(expected)) <= abs(float(np.spacing(np.minimum(abs(expected), 3e38))))


@pytest.mark.parametrize(
    "text", ["", "-", "+", ".", "e5", "-.e1", "1e", "1e+", "x", "--1", "nan", "inf", "1e39", "-1e999"]
)
def test_not_a_number(text):
    assert parsed(text)[1] == -1


def test_a_number_ends_where_it_ends():
    assert parsed("1.5x") == (1.5, 3)
    assert parsed("1.5.5") == (1.5, 3)
    assert parsed("5 7") == (5, 1)


def lines(text, dims, rows=10):
    """The words and numbers that the kernel finds, how many lines it read, and whether it reached the end."""
    data = text.encode()
    matrix, spans = np.zeros((rows, dims), np.float32), np.zeros((rows, 2), np.int64)
    filled, passed, at = parse_lines(np.frombuffer(data, np.uint8), matrix, spans)
    words = [data[start:end].decode() for start, end in spans[:filled].tolist()]
    return words, matrix[:filled].tolist(), passed, at == len(data)


def test_lines_of_all_kinds():
    assert lines("a 1 2\nb 3 4\n", 2) == (["a", "b"], [[1, 2], [3, 4]], 2, True)
    assert lines("a\t1 \t 2 \r\n\r\n \nb 3 4\t\n", 2) == (["a", "b"], [[1, 2], [3, 4]], 4, True)
    assert lines(". . . 1 2\nroute 66 3 4\n  c  5 6\n", 2)[:2] == ([". . .", "route 66", "c"], [[1, 2], [3, 4], [5, 6]])
    assert lines(" 1 2\n", 2) == ([""], [[1, 2]], 1, True)
    assert lines("1 2\n", 2) == ([], [], 0, False)
    assert lines("a 1 2\n\nb 3\nc 5 6\n", 2) == (["a"], [[1, 2]], 2, False)
    assert lines("a 1 x\n", 2)[3] is False
    assert lines("a 1 2x\n", 2)[3] is False
    assert lines("a 1 nan\n", 2)[3] is False
    assert lines("a 1\r2\n", 2)[3] is False
    assert lines("a 1 2\nb 3 4\n", 2, rows=1) == (["a"], [[1, 2]], 1, False)
