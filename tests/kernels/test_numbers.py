"""Parsing and writing numbers and lines, against Python and NumPy."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pbos.kernels.numbers import WIDEST, parse_lines, parse_number, write_rows


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


def written(matrix):
    """The lines of a matrix; None for those with a number out of range."""
    text, ends = np.empty(matrix.size * WIDEST + len(matrix), np.uint8), np.empty(len(matrix), np.int64)
    write_rows(matrix, text, ends)
    lines = [text[start:end].tobytes().decode() for start, end in pairwise([0, *ends])]
    return [line or None for line in lines]


def by_python(row):
    plain = all(value == 0 or 1e-4 <= abs(value) < 9e8 for value in row.tolist())
    return "".join(f" {value:.9g}" for value in row.tolist()) + "\n" if plain else None


@settings(max_examples=500)
@given(
    st.lists(st.floats(width=32), min_size=2, max_size=2) | st.lists(st.floats(-2, 2, width=32), min_size=2, max_size=2)
)
@example([0.0, -0.0])
@example([899999936.0, 1e-4])
@example([0.0001, -0.00012345679])
def test_rows_are_written_as_python_writes_them(row):
    matrix = np.array([row, [1, 2], row], np.float32)
    assert written(matrix) == [*map(by_python, matrix)]


def test_numbers_around_powers_of_ten_are_written_as_python_writes_them():
    powers = np.float32(10.0 ** np.arange(-5, 10))
    below, above = (np.nextafter(powers, np.float32(end)) for end in (0, np.inf))
    matrix = np.concatenate([powers, below, above, -below, powers / 3, 5 * powers])[:, None]
    random = np.random.default_rng(0).normal(size=(9000, 7)).astype(np.float32)
    for one in (matrix, random, random.round(3), 1000 * random):
        assert written(one) == [*map(by_python, one)]


def test_no_rows_and_no_numbers():
    assert written(np.empty((0, 3), np.float32)) == []
    assert written(np.empty((2, 0), np.float32)) == ["\n", "\n"]
