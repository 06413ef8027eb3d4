"""Where the process of a command begins: until its words are read, Ctrl-C ends it without another word.

Importing the rest takes a tenth of a second, in which Python would answer Ctrl-C with a traceback. Here the signal
simply ends the process; `weir.cli.main.run` catches it from then on. Only `signal` is imported before that.
Not here: what a command does (weir.cli.main).
"""

import signal

# A shell that starts a command in the background has it ignore Ctrl-C: that stays so.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run `weir`, or `kubectl weir`, with the words of this process."""
    from weir.cli.main import main as run

    run()
