"""Exit codes of `weir`."""

from typing import Final

FINE: Final = 0
FINDINGS: Final = 1
USAGE: Final = 2
#: The question cannot be answered: the cluster is out of reach, or rights, kinds or gates are not known.
CANNOT_SAY: Final = 3
#: A bug in weir.
BUG: Final = 70
INTERRUPTED: Final = 130
#: The reader left before the end (`weir … | head`): as of a program that SIGPIPE ends.
READER_LEFT: Final = 141
