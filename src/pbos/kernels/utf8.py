"""Words as UTF-8 bytes, to the code points that the index is walked with."""

import numpy as np

from pbos.kernels import kernel

KNOWN, SEPARATES, CHANGES = (np.uint32(1) << np.uint32(bit) for bit in (31, 30, 29))
CODE = np.uint32((1 << 21) - 1)  # the bits of an entry of `pbos.text.CodeTable` that hold a code point


@kernel
def decode(data, offsets, codes, ends):
    """Write the code points of words; word w is `data[offsets[w]:offsets[w + 1]]`, then `codes[ends[w]:ends[w + 1]]`.

    Returns the first word that is not UTF-8 (as Unicode has it: no overlong forms, no surrogates), or -1.
    """
    size = 0
    ends[0] = 0
    for word in range(offsets.size - 1):
        at, end = offsets[word], offsets[word + 1]
        while at < end:
            first = int(data[at])
            if first < 0x80:
                codes[size] = first
                at += 1
            else:
                length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
                if first < 0xC2 or first > 0xF4 or at + length > end:
                    return word
                code = first & (0xFF >> (length + 1))
                for later in range(at + 1, at + length):
                    byte = int(data[later])
                    if byte & 0xC0 != 0x80:
                        return word
                    code = code << 6 | (byte & 0x3F)
                least = 0x80 if length == 2 else 0x800 if length == 3 else 0x10000
                if code < least or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                    return word
                codes[size] = code
                at += length
            size += 1
        ends[word + 1] = size
    return -1


@kernel
def lay_out(entries, ends, odd, odd_codes, odd_ends, boundaries, inner, marks):
    """Return words as the index knows them, codes and offsets: respelled, with the two marks where they are due.

    `entries` are those of `CodeTable`, for each code point of the words. The words `odd`, in ascending order, are taken
    from `odd_codes` and `odd_ends` as they are.
    """
    left, right = marks
    n_words = ends.size - 1
    codes = np.empty((3 if inner else 1) * entries.size + 2 * n_words + odd_codes.size, np.uint32)
    offsets = np.zeros(n_words + 1, np.int64)
    size = n_odd = 0
    for word in range(n_words):
        if n_odd < odd.size and odd[n_odd] == word:
            for at in range(odd_ends[n_odd], odd_ends[n_odd + 1]):
                codes[size] = odd_codes[at]
                size += 1
            n_odd += 1
        else:
            if boundaries:
                codes[size] = left
                size += 1
            for at in range(ends[word], ends[word + 1]):
                entry = entries[at]
                separates = inner and entry & SEPARATES != 0
                if separates:
                    codes[size] = right
                    size += 1
                codes[size] = entry & CODE
                size += 1
                if separates:
                    codes[size] = left
                    size += 1
            if boundaries:
                codes[size] = right
                size += 1
        offsets[word + 1] = size
    return codes[:size], offsets
