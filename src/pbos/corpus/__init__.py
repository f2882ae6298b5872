"""From text to word vectors: cutting text into words, counting which occur together, and factoring the counts."""

from pbos.corpus.cooccurrences import Cooccurrences

__all__ = ["Cooccurrences"]
