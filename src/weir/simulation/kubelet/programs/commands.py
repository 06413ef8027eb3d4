"""Shell commands: busybox utilities whose effect follows from arguments and files.

Spec: POSIX "Shell and Utilities". A script with any other command is not playable.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

from weir.simulation.kubelet.programs.shell import Exit, ForEver, Shell, operate
from weir.simulation.kubelet.programs.syntax import Unplayable, parse

Run = Callable[[Shell, Sequence[str], str], int]
_FOLDERS: Final = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOST_WORDS: Final = 100  # of a test
_WIDE: Final = ("-eq", "-ne", "-lt", "-le", "-gt", "-ge")


def find(name: str) -> Run:
    """Return the command of a name or of a path where commands lie; raises Unplayable."""
    for folder in _FOLDERS:
        if name.startswith(folder):
            name = name[len(folder) :]
            break
    if name not in COMMANDS:
        raise Unplayable(f"{name!r} cannot be played")
    return COMMANDS[name]


def _true(shell: Shell, arguments: Sequence[str], input: str) -> int:
    return 0


def _false(shell: Shell, arguments: Sequence[str], input: str) -> int:
    return 1


def _exit(shell: Shell, arguments: Sequence[str], input: str) -> int:
    code = arguments[0] if arguments else str(shell.last)
    if not re.fullmatch(r"-?\d{1,9}", code):
        raise Exit(2)
    raise Exit(int(code) % 256)


def _sleep(shell: Shell, arguments: Sequence[str], input: str) -> int:
    seconds = 0.0
    for each in arguments:
        if each in ("inf", "infinity"):
            raise ForEver
        found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?)([smhd]?)", each)
        if found is None:
            shell.print(f"sleep: invalid number '{each}'\n")
            return 1
        seconds += float(found[1]) * _UNITS[found[2] or "s"]
    if not arguments:
        return 1
    shell.sleep(seconds)
    return 0


def _echo(shell: Shell, arguments: Sequence[str], input: str) -> int:
    words, end, escapes = list(arguments), "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        options = words.pop(0)
        end = "" if "n" in options else end
        escapes = escapes or "e" in options
    text = " ".join(words)
    shell.print((_escaped(text) if escapes else text) + end)
    return 0


def _printf(shell: Shell, arguments: Sequence[str], input: str) -> int:
    if not arguments:
        return 2
    values = list(arguments[1:])
    form = _escaped(arguments[0])
    if re.search(r"%[^sd%]", form):
        raise Unplayable("printf with such a form")
    while True:
        taken = len(values)
        shell.print(
            re.sub(r"%[sd%]", lambda m: "%" if m[0] == "%%" else values.pop(0) if values else "", form)
        )
        if not values or len(values) == taken:
            return 0


def _escaped(text: str) -> str:
    names = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a"}
    return re.sub(r"\\([ntra\\])", lambda found: names[found[1]], text)


def _touch(shell: Shell, arguments: Sequence[str], input: str) -> int:
    for path in _paths(arguments):
        shell.disk.write(path, shell.disk.read(path, shell.after) or "", shell.after)
    return 0


def _mkdir(shell: Shell, arguments: Sequence[str], input: str) -> int:
    for path in _paths(arguments):
        shell.disk.write(f"{path.rstrip('/')}/.", "", shell.after)
    return 0


def _rm(shell: Shell, arguments: Sequence[str], input: str) -> int:
    code, forced = 0, any(each.startswith("-") and "f" in each for each in arguments)
    for path in _paths(arguments):
        if shell.disk.is_folder(path, shell.after):
            raise Unplayable("folders cannot be removed")
        if shell.disk.read(path, shell.after) is None:
            code = code if forced else 1
        else:
            shell.disk.write(path, None, shell.after)
    return code


def _cat(shell: Shell, arguments: Sequence[str], input: str) -> int:
    code = 0
    if not arguments:
        shell.print(input)
    for path in _paths(arguments):
        text = shell.disk.read(path, shell.after)
        if text is None:
            shell.print(f"cat: can't open '{path}': No such file or directory\n")
            code = 1
        else:
            shell.print(text)
    return code


def _tail(shell: Shell, arguments: Sequence[str], input: str) -> int:
    if list(arguments) in (["-f", "/dev/null"], ["-F", "/dev/null"]):
        raise ForEver
    raise Unplayable("tail")


def _env(shell: Shell, arguments: Sequence[str], input: str) -> int:
    if arguments:
        raise Unplayable("env with arguments")
    shell.print("".join(f"{name}={value}\n" for name, value in shell.variables.items()))
    return 0


def _printenv(shell: Shell, arguments: Sequence[str], input: str) -> int:
    if not arguments:
        return _env(shell, (), input)
    found = [shell.variables[name] for name in arguments if name in shell.variables]
    shell.print("".join(f"{each}\n" for each in found))
    return int(len(found) < len(arguments))


def _export(shell: Shell, arguments: Sequence[str], input: str) -> int:
    for each in arguments:
        name, equals, value = each.partition("=")
        if equals:
            shell.variables[name] = value
    return 0


def _set(shell: Shell, arguments: Sequence[str], input: str) -> int:
    for each in arguments:
        if not re.fullmatch(r"[-+][euox]+|pipefail", each):
            raise Unplayable("set")
        if "e" in each and each[0] in "-+":
            shell.exits_on_error = each[0] == "-"
        if "x" in each[1:] and each[0] == "-":
            raise Unplayable("set -x")
    return 0


def _exec(shell: Shell, arguments: Sequence[str], input: str) -> int:
    words = list(arguments)
    while words[:1] == ["exec"]:
        del words[0]
    if not words:
        return 0
    raise Exit(find(words[0])(shell, words[1:], input))


def _sh(shell: Shell, arguments: Sequence[str], input: str) -> int:
    """Another shell: its options, its script, its $0 and what follows."""
    words, stops = list(arguments), False
    while words and re.fullmatch(r"-[eucx]+", words[0]):
        options = words.pop(0)
        stops = stops or "e" in options
        if "x" in options:
            raise Unplayable("sh -x")
        if "c" in options:
            if not words:
                return 2
            before = shell.exits_on_error, shell.arguments, dict(shell.variables)
            shell.exits_on_error, shell.arguments = stops, tuple(words[1:])
            try:
                return shell.run(parse(words[0]), input)
            except Exit as exit:
                return exit.code
            finally:
                shell.exits_on_error, shell.arguments, shell.variables = before
    if words:
        raise Unplayable("a script that lies in a file")
    return 0  # nothing to read


def _trap(shell: Shell, arguments: Sequence[str], input: str) -> int:
    """Note what is done on a signal; `-` is what is done without a trap."""
    if len(arguments) < 2:
        raise Unplayable("trap")
    action, *signals = arguments
    for signal in signals:
        name = {"15": "TERM", "2": "INT", "0": "EXIT"}.get(signal, signal.removeprefix("SIG"))
        if name not in ("TERM", "INT", "HUP", "QUIT"):
            raise Unplayable(f"trap {signal}")
        if action == "-":
            shell.traps.pop(name, None)
        else:
            shell.traps[name] = action
    return 0


def _expr(shell: Shell, arguments: Sequence[str], input: str) -> int:
    if len(arguments) != 3:
        raise Unplayable("expr")
    left, operator, right = arguments
    if operator not in ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "=", "!="):
        raise Unplayable("expr")
    numbers = [int(each) for each in (left, right) if re.fullmatch(r"-?\d{1,18}", each)]
    if len(numbers) < 2:
        shell.print("expr: non-integer argument\n")
        return 2
    value = operate("==" if operator == "=" else operator, *numbers)
    shell.print(f"{value}\n")
    return int(value == 0)


def _test(shell: Shell, arguments: Sequence[str], input: str) -> int:
    return int(not _judge(shell, list(arguments)))


def _bracket(shell: Shell, arguments: Sequence[str], input: str) -> int:
    if not arguments or arguments[-1] not in ("]", "]]"):
        shell.print("sh: missing ]\n")
        return 2
    return int(not _judge(shell, list(arguments[:-1])))


def _judge(shell: Shell, words: list[str]) -> bool:
    if len(words) > MOST_WORDS:
        raise Unplayable("such a test")
    for joint, decide in (("||", any), ("-o", any), ("&&", all), ("-a", all)):
        if joint in words[1:-1]:
            at = words.index(joint, 1)
            return decide((_judge(shell, words[:at]), _judge(shell, words[at + 1 :])))
    if words[:1] == ["!"]:
        return not _judge(shell, words[1:])
    if len(words) <= 1:
        return bool(words and words[0])
    if len(words) == 2:
        return _single(shell, *words)
    if len(words) != 3:
        raise Unplayable("such a test")
    left, operator, right = words
    if operator in ("=", "=="):
        if any(each in right for each in "*?["):
            raise Unplayable("patterns")
        return left == right
    if operator == "!=":
        return left != right
    if operator not in _WIDE:
        raise Unplayable(f"test {operator}")
    numbers = [int(each) for each in (left, right) if re.fullmatch(r"\s*-?\d{1,18}\s*", each)]
    if len(numbers) < 2:
        return False
    difference = numbers[0] - numbers[1]
    return {
        "-eq": difference == 0,
        "-ne": difference != 0,
        "-lt": difference < 0,
        "-le": difference <= 0,
        "-gt": difference > 0,
        "-ge": difference >= 0,
    }[operator]


def _single(shell: Shell, operator: str, text: str) -> bool:
    if operator in ("-n", "-z"):
        return bool(text) == (operator == "-n")
    found = shell.disk.read(text, shell.after)
    if operator in ("-f", "-r", "-w"):
        return found is not None
    if operator == "-s":
        return bool(found)
    if operator == "-d":
        return shell.disk.is_folder(text, shell.after)
    if operator == "-e":
        return found is not None or shell.disk.is_folder(text, shell.after)
    raise Unplayable(f"test {operator}")


def _paths(arguments: Sequence[str]) -> list[str]:
    return [each for each in arguments if not each.startswith("-")]


def _hostname(shell: Shell, arguments: Sequence[str], input: str) -> int:
    if list(arguments) not in ([], ["-f"], ["--fqdn"]):
        raise Unplayable("hostname with arguments")
    shell.print(f"{shell.full_hostname if arguments else shell.hostname}\n")
    return 0


def _grep(shell: Shell, arguments: Sequence[str], input: str) -> int:
    words = [each for each in arguments if each not in ("-E", "-e")]
    if len(words) != 1 or words[0].startswith("-"):
        raise Unplayable("grep")
    if "-E" not in arguments and re.search(r"[\\^$.*\[]", words[0]):
        raise Unplayable("grep")
    # With several groups of alternatives a search could try every combination of them.
    if not re.fullmatch(r"[\w()|=^$ -]{0,1000}", words[0]) or words[0].count("(") > 1:
        raise Unplayable("grep")
    pattern = re.compile(words[0] if "-E" in arguments else re.escape(words[0]))
    found = [each for each in input.splitlines() if pattern.search(each)]
    shell.print("".join(f"{each}\n" for each in found))
    return int(not found)


def _sort(shell: Shell, arguments: Sequence[str], input: str) -> int:
    if arguments:
        raise Unplayable("sort")
    shell.print("".join(f"{each}\n" for each in sorted(input.splitlines())))
    return 0


def _wc(shell: Shell, arguments: Sequence[str], input: str) -> int:
    if not arguments or arguments[0] != "-l" or len(arguments) > 2:
        raise Unplayable("wc")
    if len(arguments) == 1:
        shell.print(f"{input.count(chr(10))}\n")
        return 0
    text = shell.disk.read(arguments[1], shell.after)
    if text is None:
        shell.print(f"wc: {arguments[1]}: No such file or directory\n")
        return 1
    shell.print(f"{text.count(chr(10))} {arguments[1]}\n")
    return 0


def _awk(shell: Shell, arguments: Sequence[str], input: str) -> int:
    """Print one field of each line; other programs are not read."""
    found = re.fullmatch(r"\{\s*print\s+\$(\d)\s*\}", arguments[0]) if len(arguments) == 1 else None
    if found is None:
        raise Unplayable("awk")
    number = int(found[1])
    for line in input.splitlines():
        fields = [line, *line.split()]
        shell.print(f"{fields[number] if number < len(fields) else ''}\n")
    return 0


def _agnhost(name: str) -> Run:
    """Return the image's own program under a name: of its commands those that only print and exit."""

    def run(shell: Shell, arguments: Sequence[str], input: str) -> int:
        if list(arguments) == ["pause"]:
            shell.print("Paused\n")
            raise ForEver
        if not arguments or arguments[0] != "entrypoint-tester":
            raise Unplayable("agnhost")
        shell.print(f"[{' '.join((name, *arguments))}]\n")
        return 0

    return run


def _pause(shell: Shell, arguments: Sequence[str], input: str) -> int:
    shell.sleep(math.inf)
    return 0


COMMANDS: Final[dict[str, Run]] = {
    ":": _true,
    "true": _true,
    "false": _false,
    "exit": _exit,
    "sleep": _sleep,
    "echo": _echo,
    "printf": _printf,
    "touch": _touch,
    "mkdir": _mkdir,
    "chmod": _true,
    "sync": _true,
    "rm": _rm,
    "cat": _cat,
    "tail": _tail,
    "env": _env,
    "printenv": _printenv,
    "export": _export,
    "set": _set,
    "exec": _exec,
    "sh": _sh,
    "bash": _sh,
    "ash": _sh,
    "expr": _expr,
    "trap": _trap,
    "test": _test,
    "[": _bracket,
    "[[": _bracket,
    "hostname": _hostname,
    "grep": _grep,
    "sort": _sort,
    "wc": _wc,
    "awk": _awk,
    "/pause": _pause,
    "/agnhost": _agnhost("/agnhost"),
    "/agnhost-2": _agnhost("/agnhost-2"),
}
