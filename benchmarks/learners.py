"""Learn from a text with one system, in a process of its own, and print what it cost as JSON.

    python benchmarks/learners.py SYSTEM TEXT MODEL        (SYSTEM: pbos, fasttext, floret or gensim)

Each makes vectors of 100 dimensions for any word, with its defaults if not said otherwise, on two threads, and saves
its model as MODEL.
"""

from __future__ import annotations

import json
import sys

from scale import Clock, Steps, memory_peak

DIMS, THREADS = 100, 2
FROM_TEXT = {"model": "skipgram", "dim": DIMS, "epoch": 5, "thread": THREADS, "verbose": 0}


def pbos(text: str, model: str, steps: Steps) -> None:
    """Learn with pbos, step by step."""
    from pbos.corpus import count as counting
    from pbos.training import learn as learning

    steps.watch(counting, "count_text", "counting")
    steps.watch(learning, "word_vectors", "factoring")
    steps.watch(learning, "train", "training")
    learning.learn(text, dims=DIMS, threads=THREADS, progress=False).save(model)


def fasttext(text: str, model: str, steps: Steps) -> None:
    """Learn with fastText: n-grams of 3 to 6 letters in two million buckets, words that occur five times."""
    import fasttext

    fasttext.train_unsupervised(text, **FROM_TEXT).save_model(model)


def floret(text: str, model: str, steps: Steps) -> None:
    """Learn with floret: the same with 200,000 rows, two for each n-gram and word."""
    import floret

    floret.train_unsupervised(text, **FROM_TEXT, mode="floret", hashCount=2, bucket=200_000).save_model(model)


def gensim(text: str, model: str, steps: Steps) -> None:
    """Learn word vectors with gensim, words that occur five times, and train pbos on them."""
    from gensim.models import Word2Vec

    import pbos

    vectors = Word2Vec(corpus_file=text, sg=1, vector_size=DIMS, window=5, epochs=5, workers=THREADS).wv
    counts = {word: vectors.get_vecattr(word, "count") for word in vectors.index_to_key}
    pairs = vectors.index_to_key, vectors.vectors
    pbos.train(pairs, counts, threads=THREADS, progress=False).save(model)


def main(system: str, text: str, model: str) -> None:
    """Learn and print the cost: wall-clock seconds, processor seconds, peak memory in GiB, and all of it by step."""
    steps, clock = Steps(), Clock()
    {"pbos": pbos, "fasttext": fasttext, "floret": floret, "gensim": gensim}[system](text, model, steps)
    print(json.dumps({**clock.read(), "gib": max(steps.peak, memory_peak()), "steps": steps.steps}))


if __name__ == "__main__":
    main(*sys.argv[1:])
