"""Process entry point: Ctrl-C ends the process silently until the command is parsed.

Importing the rest takes a tenth of a second, in which Python would print a traceback. `weir.cli.main.run` handles the
signal afterwards. Only `signal` and what Python's own start needs are imported before that.
"""

import signal

# A shell that starts a command in the background has it ignore Ctrl-C: that stays so.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run `weir`, or `kubectl weir`, with the words of this process."""
    from weir.cli.main import main as run

    run()
