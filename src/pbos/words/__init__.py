"""A string becomes subwords, their weights and a vector; one word is explained.

In: words as people have them, an index of known subwords, a spelling, subword vectors. Out: vectors, weights,
segmentations, confidences, nearest words, and the explanation of a word as text, SVG and HTML. Start with `subwords`:
the class `Subwords` reads words (`text`, `variants`), looks them up (`index`) and calls the kernels; `lattice` and
`explanation` show one word. Imports files, jobs, kernels, errors and settings only.
"""
