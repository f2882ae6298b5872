"""The rows of vector files, text and binary, taken apart."""

import numpy as np

from pbos.kernels import kernel

TAB, NEWLINE, RETURN, SPACE, PLUS, MINUS, POINT, ZERO, SMALL_E, LARGE_E = (ord(c) for c in "\t\n\r +-.0eE")

POWERS = np.array([float(f"1e{power}") for power in range(65)])
MOST_DIGITS = 10**17  # below it one more digit fits an int64; what follows the 18th digit is too small to matter
TOO_LARGE = (2 - 2.0**-24) * 2.0**127  # from here on a value rounds to infinity as float32


@kernel
def parse_lines(data, matrix, words, lines):
    """Fill the matrix from lines "word number ... number"; the last byte of the data is a line end.

    Row r gets the start and end of its word in words[r] and its line, from 0, in lines[r]; blank lines give no row.
    Returns how many rows were filled, how many lines were passed and the position reached: the end of the data,
    or else the line that found no more room or, while there was room, holds no row.
    """
    at = row = line = 0
    while at < len(data) and row < len(matrix):
        first = skip_blanks(data, at)
        if data[first] == NEWLINE:
            after = first
        else:
            after = parse_line(data, at, matrix[row], words[row])
            if after < 0:
                break
            lines[row] = line
            row += 1
        line += 1
        at = after + 1
    return row, line, at


@kernel
def parse_line(data, start, row, word):
    """Read one line: the position of its line end, or -1 where it is no row.

    Nearly always the word ends at the first separator. Where that fails the word holds separators itself
    (". . ." in GloVe), so the numbers are counted from the right and what is left of them is the word.
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
        at = left_of_separators(data, at, start)
        while at > start and not is_separator(data[at - 1]):
            at -= 1
    if at == start:
        return -1  # a number short: what stands first would have to be the word
    end = left_of_separators(data, at, start)
    while start < end and is_separator(data[start]):
        start += 1
    word[0], word[1] = start, end
    return parse_row(data, at - 1, row)


@kernel
def parse_row(data, at, row):
    """Read exactly len(row) numbers, separators before each, up to the line end; -1 where they are not there."""
    for column in range(len(row)):
        if not is_separator(data[at]):
            return -1
        while is_separator(data[at]):
            at += 1
        value, at = parse_number(data, at)
        if at < 0:
            return -1
        row[column] = value
    at = skip_blanks(data, at)
    return at if data[at] == NEWLINE else -1


@kernel
def parse_number(data, at):
    """Read a decimal number: its value and the position after it; -1 where none stands or float32 cannot hold it.

    The digits go to an integer, scaled once by a power of ten: sign * mantissa * 10 ** exponent.
    """
    negative = data[at] == MINUS
    if negative or data[at] == PLUS:
        at += 1
    mantissa = 0
    exponent = 0
    digits = 0
    while is_digit(data[at]):
        if mantissa < MOST_DIGITS:
            mantissa = mantissa * 10 + (int(data[at]) - ZERO)
        else:
            exponent += 1
        digits += 1
        at += 1
    if data[at] == POINT:
        at += 1
        while is_digit(data[at]):
            if mantissa < MOST_DIGITS:
                mantissa = mantissa * 10 + (int(data[at]) - ZERO)
                exponent -= 1
            digits += 1
            at += 1
    if digits == 0:
        return 0.0, -1
    if data[at] == SMALL_E or data[at] == LARGE_E:
        power, at = parse_exponent(data, at + 1)
        exponent += power
        if at < 0:
            return 0.0, -1

    if mantissa == 0 or exponent <= -len(POWERS):  # 18 digits cannot lift 1e-65 to the smallest float32
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
def parse_exponent(data, at):
    """Read the digits after an e: the exponent and the position after it, -1 where there are none."""
    negative = data[at] == MINUS
    if negative or data[at] == PLUS:
        at += 1
    if not is_digit(data[at]):
        return 0, -1
    power = 0
    while is_digit(data[at]):
        power = min(power * 10 + (int(data[at]) - ZERO), 1_000_000)  # beyond any float; keeps the integer small
        at += 1
    return (-power if negative else power), at


@kernel
def is_digit(byte):
    return ZERO <= byte <= ZERO + 9


@kernel
def is_separator(byte):
    return byte in (SPACE, TAB)


@kernel
def skip_blanks(data, at):
    while is_separator(data[at]) or data[at] == RETURN:
        at += 1
    return at


@kernel
def left_of_separators(data, at, start):
    while at > start and is_separator(data[at - 1]):
        at -= 1
    return at


@kernel
def split_records(data, matrix, words):
    """Fill the matrix (its rows as bytes) from binary records: the word, a space, the bytes of its row.

    Row r gets the start and end of its word in words[r]; line ends before a word are skipped. Returns how many
    rows were filled and the position reached: the start of the first record that is not whole or found no room.
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
        matrix[row] = data[end + 1 : end + 1 + width]
        row += 1
        at = end + 1 + width
    return row, at
