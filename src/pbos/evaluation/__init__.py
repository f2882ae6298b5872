"""Evaluation of any model: in go anything that embeds words and your data, out comes a `Result` with intervals.

Start reading at `words`: word similarity and held-out words. `datasets` reads pairs of words with scores from a file;
`results` has the scores and their bootstrap intervals. May import everything above it in CONTRIBUTING.md's table of
rooms but trains nothing itself: `words.heldout` is given a function that does. The paper's other tasks and the
downloads of its data sets are in `experiments/`, which is not part of the package.
"""
