"""Vectors for out-of-vocabulary words in gensim: python gensim_unseen.py vectors.vec internationalise tweetable."""

import sys

from gensim.models import KeyedVectors

import pbos
from pbos.adapters.gensim import keyed_vectors

given = KeyedVectors.load_word2vec_format(sys.argv[1])
kv = keyed_vectors(pbos.train(given))
for word in sys.argv[2:]:
    print(word, word in given, word in kv, *kv.most_similar(word, topn=2))
