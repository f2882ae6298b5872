"""Does it help? Tasks with words that a table of vectors lacks, with the same small network for all rivals.

`tables.py` says which tables there are, `measures.py` how each rival is measured, `rivals.py` what an unknown word
gets, `sources.py` where the data comes from, and `network.py` what learns.
"""
