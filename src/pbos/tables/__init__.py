"""Words and their counts or vectors, in and out of files; published ones too.

Files, URLs and what people have in memory come in; `WordVectors` and `WordCounts` come out, and can be written. Start
reading at `WordVectors.read`, then see formats.py: to add a format, add an entry there, to `READERS` in word_vectors.py
and to `WRITERS` in writing.py. `published.get` downloads the tables that published.json lists; columns.py reads the
words of Parquet, Arrow and CSV files. This room imports files, jobs, kernels and words.
"""
