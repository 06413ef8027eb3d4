"""Process entry point: handles interrupts before the rest of weir is imported."""

import os
import sys

from weir.cli import interrupts as interrupts  # first: importing the rest takes a tenth of a second


def main() -> None:
    """Run `weir`, or `kubectl weir`, with the words of this process."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed (`>&-`): the next file opened would take its place
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115
    from weir.cli.main import main as run  # after interrupts are handled

    run()
