"""One question a file: its docstring says what is measured, its function `rows` yields the rows of the table."""
