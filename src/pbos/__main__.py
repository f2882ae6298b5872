"""The command line as `python -m pbos`."""

from pbos.cli import main

main()
