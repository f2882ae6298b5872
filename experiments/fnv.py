"""The FNV-1a hash, by which n-grams and subwords are put into buckets."""


def fnv1a(text: str) -> int:
    """Return the 64-bit FNV-1a hash of a string's code points.

    >>> hex(fnv1a("foobar"))
    '0x85944171f73967e8'
    """
    state = 0xCBF29CE484222325
    for character in text:
        state = (state ^ ord(character)) * 0x100000001B3 % 2**64
    return state
