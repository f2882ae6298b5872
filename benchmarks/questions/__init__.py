"""One question per file: the docstring says what is measured, and `rows` yields the rows of the table."""
