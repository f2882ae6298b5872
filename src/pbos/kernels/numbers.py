"""The rows of vector files: parsed, from text and binary, and written as text."""

import numpy as np

from pbos.kernels import kernel

TAB, NEWLINE, RETURN, SPACE, PLUS, MINUS, POINT, ZERO, SMALL_E, LARGE_E = (ord(c) for c in "\t\n\r +-.0eE")

POWERS = np.array([float(f"1e{power}") for power in range(65)])
MAX_MANTISSA = 10**17  # below it one more digit fits an int64; digits after the 18th are too small to matter
TOO_LARGE = (2 - 2.0**-24) * 2.0**127  # this and larger values round to infinity as float32


@kernel
def parse_lines(data, matrix, words):
    """Fill the matrix from lines "word number ... number"; the last byte of the data must be a line end.

    words[r] gets the start and end of the word of row r; blank lines are skipped. Returns the number of rows filled,
    the number of lines read and the position reached: the end of the data, or the start of the line where the matrix
    was full or, if it is not full, of a line that is not a row.
    """
    at = row = line = 0
    while at < len(data) and row < len(matrix):
        after = at
        while is_separator(data[after]) or data[after] == RETURN:
            after += 1
        if data[after] != NEWLINE:
            after = parse_line(data, at, matrix[row], words[row])
            if after < 0:
                break
            row += 1
        line += 1
        at = after + 1
    return row, line, at


@kernel
def parse_line(data, start, row, word):
    """Parse one line; return the position of its line end, or -1 if it is not a row.

    The word nearly always ends at the first separator. If that fails, the word itself contains separators (". . ." in
    GloVe): the numbers are counted from the right, and the word is what is left.
    """
    if not is_separator(data[start]):
        end = start
        while not is_separator(data[end]) and data[end] != NEWLINE:
            end += 1
        word[0], word[1] = start, end
        after = parse_row(data, end, row)
        if after >= 0:
            return after

    at = start
    while data[at] != NEWLINE:
        at += 1
    while at > start and (is_separator(data[at - 1]) or data[at - 1] == RETURN):
        at -= 1
    for _ in range(len(row)):
        while at > start and is_separator(data[at - 1]):
            at -= 1
        while at > start and not is_separator(data[at - 1]):
            at -= 1
    if at == start:
        return -1  # too few numbers: no word is left
    end = at
    while end > start and is_separator(data[end - 1]):
        end -= 1
    while start < end and is_separator(data[start]):
        start += 1
    word[0], word[1] = start, end
    return parse_row(data, at - 1, row)


@kernel
def parse_row(data, at, row):
    """Parse exactly len(row) numbers, each after a separator; return the position of the line end, or -1."""
    for column in range(len(row)):
        if not is_separator(data[at]):
            return -1
        while is_separator(data[at]):
            at += 1
        value, at = parse_number(data, at)
        if at < 0:
            return -1
        row[column] = value
    while is_separator(data[at]) or data[at] == RETURN:
        at += 1
    return at if data[at] == NEWLINE else -1


@kernel
def parse_number(data, at):
    """Parse sign * mantissa * 10 ** exponent; return the value and the position after it, -1 if no finite float32."""
    negative = data[at] == MINUS
    if negative or data[at] == PLUS:
        at += 1
    start = at
    mantissa, exponent, at = parse_digits(data, at, 0)
    digits = at - start
    if data[at] == POINT:
        start = at + 1
        mantissa, dropped, at = parse_digits(data, start, mantissa)
        digits += at - start
        exponent -= at - start - dropped
    if digits == 0:
        return 0.0, -1
    if data[at] == SMALL_E or data[at] == LARGE_E:
        minus = data[at + 1] == MINUS
        start = at + 2 if minus or data[at + 1] == PLUS else at + 1
        power, _, at = parse_digits(data, start, 0)
        if at == start:
            return 0.0, -1
        power = min(power, 1_000_000)  # beyond any float
        exponent += -power if minus else power

    if mantissa == 0 or exponent <= -len(POWERS):  # 18 digits times 1e-65 is less than any float32
        value = 0.0
    elif exponent < 0:
        value = mantissa / POWERS[-exponent]
    elif exponent < len(POWERS):
        value = mantissa * POWERS[exponent]
    else:
        value = TOO_LARGE
    if value >= TOO_LARGE:
        return 0.0, -1
    return (-value if negative else value), at


@kernel
def parse_digits(data, at, mantissa):
    """Append digits to a mantissa; return it, how many digits it has no room for, and the position after them."""
    dropped = 0
    while ZERO <= data[at] <= ZERO + 9:
        if mantissa < MAX_MANTISSA:
            mantissa = mantissa * 10 + (int(data[at]) - ZERO)
        else:
            dropped += 1
        at += 1
    return mantissa, dropped, at


@kernel
def is_separator(byte):
    return byte in (SPACE, TAB)


@kernel
def split_records(data, matrix, words):
    """Fill the matrix (its rows as bytes) from binary records: the word, a space, the bytes of its row.

    words[r] gets the start and end of the word of row r; line ends before a word are skipped. Returns the number of
    rows filled and the position reached: the start of the first record that is incomplete or has no room.
    """
    at = row = 0
    width = matrix.shape[1]
    while row < len(matrix):
        start = at
        while start < len(data) and data[start] == NEWLINE:
            start += 1
        end = start
        while end < len(data) and data[end] != SPACE:
            end += 1
        if end + 1 + width > len(data):
            break
        words[row, 0], words[row, 1] = start, end
        at = end + 1 + width
        matrix[row] = data[end + 1 : at]
        row += 1
    return row, at


EDGES = np.array([float(f"1e{power}") for power in range(-3, 10)])
WIDEST = 16  # bytes of a number that `write_rows` writes, with the space before it
LEAST, MOST = 1e-4, 9e8  # numbers outside of this have an exponent, or nearly


@kernel
def write_rows(matrix, text, ends):
    """Write a line of numbers for each row, each after a space, and where it ends; none if a number is out of range.

    Numbers are as "%.9g" writes them: in this range, a float32 times the power of ten that leaves nine digits before
    the point is exact in a double.
    """
    at = 0
    for row in range(len(matrix)):
        start = at
        for value in matrix[row]:
            size = np.abs(np.float64(value))
            if not (size == 0 or LEAST <= size < MOST):
                at = start
                break
            text[at] = SPACE
            at += 1
            if np.signbit(value):
                text[at] = MINUS
                at += 1
            at = write_number(size, text, at)
        else:
            text[at] = NEWLINE
            at += 1
        ends[row] = at


@kernel
def write_number(size, text, at):
    """Write nine digits of a positive number, without zeros at the end; return the position after them."""
    if size == 0:
        text[at] = ZERO
        return at + 1
    before = -3  # the number of digits before the point; below 0, that of zeros after it
    while size >= EDGES[before + 3]:
        before += 1
    digits = np.int64(np.rint(size * POWERS[9 - before]))
    if digits == 1_000_000_000:
        digits, before = np.int64(100_000_000), before + 1
    n = 9
    while digits % 10 == 0 and n > max(before, 1):
        digits //= 10
        n -= 1
    if before <= 0:
        text[at] = ZERO
        text[at + 1] = POINT
        for place in range(-before):
            text[at + 2 + place] = ZERO
        at += 2 - before
    end = at + n + (0 < before < n)
    for place in range(end - 1, at - 1, -1):
        if place == at + before and before > 0:
            text[place] = POINT
        else:
            text[place] = ZERO + digits % 10
            digits //= 10
    return end
