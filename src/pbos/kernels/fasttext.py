"""The vectors of a fastText model: the mean of a word's row and of those of its n-grams."""

import numpy as np

from pbos.kernels import kernel, part

OFFSET, PRIME, LOW_BITS = 2166136261, 16777619, 0xFFFFFFFF  # of the hash FNV-1a
HIGH_BITS = 0xFFFFFF00  # fastText hashes bytes from 128 on as negative numbers
END_OF_LINE = np.frombuffer(b"</s>", np.uint8)  # a word without n-grams


@part
def starts_character(byte):
    """Return whether a byte of UTF-8 is the first one of a character."""
    return byte & 0xC0 != 0x80


@part
def hashed(state, byte):
    """Return the hash after one more byte."""
    number = np.int64(byte)
    if number > 127:
        number |= HIGH_BITS
    return ((state ^ number) * PRIME) & LOW_BITS


@kernel
def mean_rows(content, offsets, first, n_words, n_buckets, least, most, matrix, out):
    """Write the vectors of words into out; word w of the model is `content[offsets[w]:offsets[w + 1]]`, as `<word>`.

    Its rows are w and, from `n_words` on, that of the bucket of each n-gram with `least` to `most` characters.
    """
    for at in range(out.shape[0]):
        begin, end = offsets[first + at], offsets[first + at + 1]
        total, count = out[at], 1
        for dim in range(total.size):
            total[dim] = matrix[first + at, dim]
        has_ngrams = end - begin != END_OF_LINE.size + 2
        for place in range(END_OF_LINE.size):
            has_ngrams = has_ngrams or content[begin + 1 + place] != END_OF_LINE[place]
        start = begin
        while has_ngrams and start < end:
            if starts_character(content[start]):
                state, stop, length = np.int64(OFFSET), start, 0
                while stop < end and length < most:
                    state = hashed(state, content[stop])
                    stop += 1
                    while stop < end and not starts_character(content[stop]):
                        state = hashed(state, content[stop])
                        stop += 1
                    length += 1
                    if length >= least and not (length == 1 and (start == begin or stop == end)):
                        row = n_words + state % n_buckets
                        count += 1
                        for dim in range(total.size):
                            total[dim] += matrix[row, dim]
            start += 1
        for dim in range(total.size):
            total[dim] /= np.float32(count)
