"""Starts `weir up` quickly, again and again: everything is imported once, each start is a fork.

Reads lines from standard input: `start LOGFILE ARGUMENTS…` forks a process that is `weir up` from then on and prints
its number. The forked process is the whole cluster; killing it kills everything but what is stored.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys


def become_up(log: str, arguments: list[str]) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    from weir.cli.up import up

    up.main(["--secure-port", "0", *arguments], standalone_mode=False)


def main() -> None:
    import weir.apiserver.run
    import weir.cli.up
    import weir.simulation.cluster
    import weir.store.sqlite  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        _, log, *arguments = shlex.split(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                become_up(log, arguments)
                code = 0
            finally:
                os._exit(code)
        print(child, flush=True)


if __name__ == "__main__":
    main()
