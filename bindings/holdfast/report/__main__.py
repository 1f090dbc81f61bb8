"""The program ``python -m holdfast.report``."""

import sys

from holdfast.base import program

from .command import main

if __name__ == "__main__":
    sys.exit(program.run("holdfast.report", main))
