"""Cost of one command of weir, in a process of its own: for benches of whole answers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

_RUN = """
import json, resource, sys
from weir.cli.main import run
run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
# The most that rusage knows is what the process that started this one took.
(most,) = (int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([used.ru_utime + used.ru_stime, most / 1024]), file=sys.stderr)
"""


class Cost(NamedTuple):
    """What a command printed and took."""

    printed: str
    seconds: float  #: of processors
    mebibytes: float  #: at most


def command_cost(*words: str) -> Cost:
    """Return what `weir` *words* printed and took."""
    done = run_code(_RUN, *words)
    seconds, memory = json.loads(done.stderr.splitlines()[-1])
    return Cost(done.stdout, seconds, memory)


def run_code(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run *code* in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done
