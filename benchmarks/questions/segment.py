"""Segmentation: the five best and the best one of 20,000 words, and ten samples for each of 2,000 words; one core.

Ours is `Segmenter.from_counts` of 333,333 words, which knows every substring. SentencePiece and tokenizers have 32,000
pieces that SentencePiece learned from the same words, each counted once. Trained on word counts instead ("by count"),
its vocabulary is mostly whole words and single letters, and it finds three segmentations instead of five. Morfessor is
trained on the first 20,000 words.

Quality is the paper's affix prediction (macro F1 x 100), scored in the same way for all: a piece's weight is the
probability of the timed segmentations that contain it, and the affix with the largest weight is the prediction.
"segmentations per word" is their mean number.
"""

from __future__ import annotations

from types import SimpleNamespace

import inputs
import numpy as np
import peers
from measure import Row, one_core, race

import pbos
from experiments.affixes import affix
from experiments.datasets import read_affixes

N_BEST = 5
SAMPLED_WORDS, SAMPLES = 2_000, 10


def rows():
    words = inputs.unseen_words()
    segmenter = pbos.Segmenter.from_counts(inputs.counts())
    spm, by_count = peers.sentencepiece(), peers.sentencepiece(by_count=True)
    unigram, viterbi = peers.unigram(), peers.morfessor().viterbi_segment
    sampled = words[:SAMPLED_WORDS]
    best = {
        "ours": lambda: segmenter.segment(words, n=N_BEST),
        "SentencePiece": lambda: spm.nbest_encode_as_pieces(words, nbest_size=N_BEST),
        "SentencePiece by count": lambda: by_count.nbest_encode_as_pieces(words, nbest_size=N_BEST),
    }
    one = {
        "ours": lambda: segmenter.segment(words),
        "SentencePiece": lambda: spm.encode_as_pieces(words, num_threads=1),
        "tokenizers": lambda: [encoding.tokens for encoding in unigram.encode_batch_fast(words)],
        "Morfessor": lambda: [viterbi(word)[0] for word in words],
    }
    samples = {
        "ours": lambda: segmenter.sample(sampled, SAMPLES),
        "SentencePiece": lambda: spm.sample_encode_and_score(sampled, num_samples=SAMPLES, alpha=1.0, out_type=str),
    }
    with one_core():
        best_cost, one_cost = (per_word(race(calls), words) for calls in (best, one))
        samples_cost = per_word(race(samples), sampled)

    found = {name: sum(map(len, call())) / len(words) for name, call in best.items()}
    best_f1 = {
        "ours": affix_f1(lambda word: segmenter.segment(word, n=N_BEST)),
        "SentencePiece": affix_f1(lambda word: with_probabilities(spm, word)),
        "SentencePiece by count": affix_f1(lambda word: with_probabilities(by_count, word)),
    }
    one_f1 = {
        "ours": affix_f1(segmenter.segment),
        "SentencePiece": affix_f1(lambda word: [(spm.encode_as_pieces(word), 1.0)]),
        "tokenizers": affix_f1(lambda word: [(unigram.encode(word).tokens, 1.0)]),
        "Morfessor": affix_f1(lambda word: [(viterbi(word)[0], 1.0)]),
    }
    question = f"the {N_BEST} best segmentations of {len(words):,} words"
    yield from compare(question, best_cost, {"affix F1": best_f1, "segmentations per word": found}, at_least=2.0)
    yield from compare(f"the best segmentation of {len(words):,} words", one_cost, {"affix F1": one_f1})
    yield from compare(f"{SAMPLES} sampled segmentations per word, {SAMPLED_WORDS:,} words", samples_cost, {})


def per_word(seconds: dict[str, float], words: list[str]) -> dict[str, float]:
    """Return microseconds per word."""
    return {name: 1e6 * value / len(words) for name, value in seconds.items()}


def compare(question: str, cost: dict[str, float], qualities: dict[str, dict[str, float]], at_least=None):
    """Yield one row per peer."""
    for peer in [name for name in cost if name != "ours"]:
        quality = {name: (values["ours"], values[peer]) for name, values in qualities.items()}
        yield Row(question, cost["ours"], "µs/word", peer, cost[peer], at_least=at_least, quality=quality)


def with_probabilities(spm, word: str):
    """Return SentencePiece's best segmentations with their probabilities, normalized to sum to 1."""
    found = spm.nbest_encode_as_pieces(word, nbest_size=N_BEST)
    odds = np.exp([sum(spm.get_score(spm.piece_to_id(piece)) for piece in pieces) for pieces in found])
    return list(zip(found, odds / odds.sum(), strict=True))


def affix_f1(segment) -> float:
    """Return macro F1 x 100 of affix prediction; `segment(word)` returns pairs of pieces and probability."""

    def weights(word: str):
        sums: dict[str, float] = {}
        for pieces, probability in segment(word):
            for piece in pieces:
                letters = piece.removeprefix("▁")
                sums[letters] = sums.get(letters, 0.0) + probability
        return list(sums.items())

    segmenter = SimpleNamespace(weights=weights, spelling=SimpleNamespace(boundaries=False))
    return 100 * affix(segmenter, read_affixes(inputs.DATA), repeats=1).scores["f1"].value
