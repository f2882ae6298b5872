"""Models are trained and used in several threads at once; every result is that of one thread alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import pbos


def test_threads_that_train_while_others_embed(small_vectors):
    words = small_vectors.words
    model = pbos.train(small_vectors)
    expected = model.embed(words)
    alone = [pbos.train(small_vectors, seed=seed).embed(words) for seed in range(2)]
    n_wrong = 0

    def embed_until_done(seed):
        nonlocal n_wrong
        rng = np.random.default_rng(seed)
        rounds = 0
        while not rounds or not all(run.done() for run in trainings):
            rows = rng.choice(len(words), 50)
            n_wrong += not np.array_equal(model.embed([words[row] for row in rows]), expected[rows])
            rounds += 1

    with ThreadPoolExecutor(4) as pool:
        trainings = [pool.submit(pbos.train, small_vectors, seed=seed) for seed in range(2)]
        embeddings = [pool.submit(embed_until_done, seed) for seed in range(2)]
    for run in embeddings:
        run.result()
    assert n_wrong == 0
    for run, vectors in zip(trainings, alone, strict=True):
        np.testing.assert_array_equal(run.result().embed(words), vectors)
