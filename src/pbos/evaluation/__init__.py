"""Evaluation of any model: word similarity, affix prediction, held-out words, POS tagging (extra `eval`)."""
