"""Shell interpreter for playback: output, files, exit code and duration of a script.

Time is counted, not spent: `sleep 5` advances the script's clock, and output carries its time. An endless script runs
until it is stopped. A script is played whole when its container starts, so it sees what other containers were played
to write by then.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from weir.simulation.kubelet.programs import syntax
from weir.simulation.kubelet.programs.syntax import Part, Script, Unplayable, Word

MOST_STEPS: Final = 5000
DEEPEST_CALLS: Final = 20
MOST_OUTPUT: Final = 1 << 16
MOST_TEXT: Final = 1 << 20  # characters that variables, substitutions and output may come to in one script
DEEPEST: Final = 40  # shells in shells, brackets and tests in each other
MOST_ROUNDS: Final = 200  # of a loop that prints the same for ever
_TOKENS: Final = re.compile(r"\s*(\d+|\$?\w+|<=|>=|==|!=|&&|\|\||[-+*/%()<>!])")


class Printed(NamedTuple):
    """Something a program printed, so many seconds after it was started."""

    after: float
    text: str


class Disk(Protocol):
    """The files that a script sees; times are seconds since it was started."""

    uses: int  #: number of calls

    def read(self, path: str, after: float) -> str | None: ...

    def write(self, path: str, text: str | None, after: float) -> None: ...

    def is_folder(self, path: str, after: float) -> bool: ...


class Exit(Exception):
    """The script ends."""

    def __init__(self, code: int) -> None:
        self.code = code


class ForEver(Exception):
    """The script does not end by itself."""


@dataclass
class Shell:
    """One script that is being played."""

    variables: dict[str, str]
    disk: Disk
    find: Callable[[str], Callable[[Shell, Sequence[str], str], int]]  #: the command of a name
    random: Callable[[], int]
    hostname: str = ""
    full_hostname: str = ""
    arguments: tuple[str, ...] = ()
    after: float = 0.0  #: seconds since the beginning
    printed: list[Printed] = field(default_factory=list)
    last: int = 0  #: $?
    exits_on_error: bool = False  #: set -e
    functions: dict[str, Script] = field(default_factory=dict)
    traps: dict[str, str] = field(
        default_factory=dict
    )  #: what is run on a signal; "": nothing, it is ignored
    _caught: list[list[str]] = field(default_factory=list)
    _steps: int = 0
    _calls: int = 0
    _length: int = 0
    _text: int = 0
    _depth: int = 0
    _tested: int = 0  #: inside a condition, where set -e does not look

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def run(self, script: Script, input: str = "") -> int:
        """Play a script; return the exit code of its last command. Raises Exit, ForEver and Unplayable."""
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                raise Unplayable("nested too deeply")
            return self._entries(script, input)
        finally:
            self._depth -= 1

    def _entries(self, script: Script, input: str) -> int:
        code, skip = 0, False
        entries = script.entries
        for number, (operator, pipeline) in enumerate(entries):
            if operator:
                skip = (operator == "&&") != (self.last == 0)
            else:
                skip = False
            if skip:
                continue
            followed = number + 1 < len(entries) and entries[number + 1][0] != ""
            code = self._pipeline(pipeline, input, tested=followed)
        return code if entries else 0

    def _pipeline(self, pipeline: syntax.Pipeline, input: str, *, tested: bool) -> int:
        code = 0
        self._tested += tested or pipeline.negated
        try:
            for command in pipeline.commands[:-1]:
                self._caught.append([])
                self._command(command, input)
                input = "".join(self._caught.pop())
            code = self._command(pipeline.commands[-1], input)
        finally:
            self._tested -= tested or pipeline.negated
        if pipeline.negated:
            code = int(code == 0)
        self.last = code
        if code and self.exits_on_error and not self._tested and not tested and not pipeline.negated:
            raise Exit(code)
        return code

    def _command(self, command: syntax.Command, input: str) -> int:
        self.step()
        match command:
            case syntax.Simple():
                return self._simple(command, input)
            case syntax.Group(body, subshell):
                return self._subshell(body, input) if subshell else self.run(body, input)
            case syntax.If(branches, otherwise):
                for condition, body in branches:
                    if self._condition(condition) == 0:
                        return self.run(body)
                return self.run(otherwise) if otherwise is not None else 0
            case syntax.For(name, words, body):
                code = 0
                for text in [each for word in words for each in self.expand(word)]:
                    self.step()
                    self.variables[name] = text
                    code = self.run(body)
                return code
            case syntax.While():
                return self._loop(command)
            case syntax.Function(name, body):
                self.functions[name] = body
                return 0

    def _loop(self, loop: syntax.While) -> int:
        code, began, rounds = 0, len(self.printed), 0
        while True:
            before, uses, since = dict(self.variables), self.disk.uses, self.after
            if (self._condition(loop.condition) == 0) == loop.until:
                return code
            code, rounds = self.run(loop.body), rounds + 1
            if self.after == since:
                if self.variables == before:
                    raise Unplayable("a loop that waits for nothing")
                continue
            same = self.variables == before and self.disk.uses == uses
            if same and (len(self.printed) == began or rounds >= MOST_ROUNDS):
                raise ForEver  # each round is like the one before

    def _call(self, name: str, arguments: list[str], input: str) -> int:
        self._calls += 1
        if self._calls > DEEPEST_CALLS:
            raise Unplayable("functions call each other too deeply")
        before, self.arguments = self.arguments, (name, *arguments)
        try:
            return self.run(self.functions[name], input)
        finally:
            self.arguments, self._calls = before, self._calls - 1

    def _condition(self, script: Script) -> int:
        self._tested += 1
        try:
            return self.run(script)
        finally:
            self._tested -= 1

    def _subshell(self, body: Script, input: str = "") -> int:
        variables = dict(self.variables)
        try:
            return self.run(body, input)
        except Exit as exit:
            self.last = exit.code
            return exit.code
        finally:
            self.variables = variables

    def _simple(self, command: syntax.Simple, input: str) -> int:
        assigned = {name: "".join(self.expand(word, split=False)) for name, word in command.assignments}
        words = [text for word in command.words for text in self.expand(word)]
        if not words:
            self.variables.update(assigned)
            for each in command.redirections:
                self._redirect(each, "")
            return self.last if assigned else 0
        name, *arguments = words
        caught: list[str] | None = None
        if any(each.stream == 1 for each in command.redirections):
            caught = []
            self._caught.append(caught)
        before = dict(self.variables)
        self.variables.update(assigned)
        try:
            if name in self.functions:
                code = self._call(name, arguments, input)
            else:
                code = self.find(name)(self, arguments, input)
        finally:
            if assigned:
                self.variables = before
            if caught is not None:
                self._caught.pop()
                for each in command.redirections:
                    if each.stream == 1:
                        self._redirect(each, "".join(caught))
        return code

    def _redirect(self, redirection: syntax.Redirection, text: str) -> None:
        target = "".join(self.expand(redirection.target, split=False))
        if redirection.operator == ">&" or target in (
            "/dev/stdout",
            "/dev/stderr",
            "/proc/1/fd/1",
            "/proc/1/fd/2",
        ):
            self.print(text)  # a container's log has both streams
        elif target != "/dev/null":
            if redirection.operator == ">>":
                text = (self.disk.read(target, self.after) or "") + text
                self.spend(text)
            self.disk.write(target, text, self.after)

    # ── effects ──────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        """Count a command."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise ForEver if self.after else Unplayable("too many commands")

    def spend(self, text: str) -> None:
        """Count a text that was made: a variable that doubles in each round must not fill the memory."""
        self._text += len(text)
        if self._text > MOST_TEXT:
            raise Unplayable("too much text")

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        if math.isinf(seconds):
            raise ForEver
        self.after += seconds

    def print(self, text: str) -> None:
        """Print to where output goes at the moment."""
        self.spend(text)
        if self._caught:
            self._caught[-1].append(text)
        elif text and self._length < MOST_OUTPUT:
            self._length += len(text)
            self.printed.append(Printed(self.after, text))

    # ── words ────────────────────────────────────────────────────────────────────────────────────

    def expand(self, word: Word, *, split: bool = True) -> list[str]:
        """Return the texts that a word becomes: one, unless an unquoted variable holds blanks or nothing."""
        fields: list[str] = []
        open_field: str | None = None
        for part in word:
            text = self._part(part)
            self.spend(text)
            if part.quoted or part.kind == "text" or not split:
                if part.kind == "text" and not part.quoted and split and ("*" in text or "?" in text):
                    raise Unplayable("names of files cannot be looked up")
                open_field = (open_field or "") + text
                continue
            pieces = text.split()
            if not pieces:
                continue
            if text[0].isspace() and open_field is not None:
                fields.append(open_field)
                open_field = None
            fields += [(open_field or "") + pieces[0], *pieces[1:]]
            open_field = fields.pop() if not text[-1].isspace() else None
        if open_field is not None:
            fields.append(open_field)
        return fields

    def _part(self, part: Part) -> str:
        if part.kind == "text":
            return part.text
        if part.kind == "command":
            assert part.script is not None
            self._caught.append([])
            try:
                self._subshell(part.script)
            finally:
                caught = "".join(self._caught.pop())
            return caught.rstrip("\n")
        if part.kind == "arithmetic":
            return str(self.calculate(part.text))
        value = self._variable(part.text)
        if part.operator == ":-" and not value:
            return "".join(self.expand(part.word, split=False))
        if part.operator == ":=" and not value:
            value = self.variables[part.text] = "".join(self.expand(part.word, split=False))
        if part.operator == ":+":
            return "".join(self.expand(part.word, split=False)) if value else ""
        if part.operator == ":?" and not value:
            raise Exit(2)
        return value

    def _variable(self, name: str) -> str:
        if name == "?":
            return str(self.last)
        if name == "RANDOM":
            return str(self.random())
        if name == "$":
            return "1"
        if name == "#":
            return str(max(len(self.arguments) - 1, 0))
        if name in ("@", "*"):
            return " ".join(self.arguments[1:])
        if name.isdigit():
            return self.arguments[int(name)] if int(name) < len(self.arguments) else ""
        return self.variables.get(name, "")

    def calculate(self, text: str) -> int:
        """Return what `$((text))` is."""
        return _Arithmetic(_tokens(text), lambda name: self._variable(name.lstrip("$"))).whole()


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKENS.match(text, at)
        if match is None:
            raise Unplayable(f"{text.strip()!r} cannot be calculated")
        found.append(match[1])
        at = match.end()
    return found


_LEVELS: Final = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))


@dataclass
class _Arithmetic:
    tokens: list[str]
    variable: Callable[[str], str]
    at: int = 0
    depth: int = 0

    def whole(self) -> int:
        if not self.tokens:
            return 0
        value = self._level(0)
        if self.at < len(self.tokens):
            raise Unplayable(f"unexpected {self.tokens[self.at]!r}")
        return value

    def _next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while (operator := self._next()) in _LEVELS[level] and operator:
            self.at += 1
            left = operate(operator, left, self._level(level + 1))
        return left

    def _unary(self) -> int:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unplayable("nested too deeply")
        try:
            return self._operand()
        finally:
            self.depth -= 1

    def _operand(self) -> int:
        token = self._next()
        self.at += 1
        if token in ("-", "+", "!"):
            value = self._unary()
            return -value if token == "-" else int(not value) if token == "!" else value
        if token == "(":
            value = self._level(0)
            if self._next() != ")":
                raise Unplayable("a bracket is not closed")
            self.at += 1
            return value
        text = token if token.isdigit() else self.variable(token) or "0"
        if not re.fullmatch(r"-?\d{1,18}", text):
            raise Unplayable(f"{text!r} is no number")
        return int(text)


def operate(operator: str, left: int, right: int) -> int:
    """Return what two numbers make, as a shell and expr calculate.

    >>> operate("%", -7, 2), operate("<", 1, 2)
    (-1, 1)
    """
    if operator in ("/", "%"):
        if not right:
            raise Unplayable("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    answers: Mapping[str, int] = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
        "==": left == right,
        "!=": left != right,
        "&&": bool(left and right),
        "||": bool(left or right),
    }
    return int(answers[operator])


def text_of(printed: Iterable[Printed], until: float = math.inf) -> str:
    """Return what was printed up to a time."""
    return "".join(each.text for each in printed if each.after <= until)
