"""Parser for the subset of the POSIX shell that containers' commands use.

Lists, `&&` and `||`, pipelines, `if`, `while`, `until`, `for`, groups, output redirection, quotes, variables, command
and arithmetic substitution, and `[[ … ]]`. Anything else raises `Unplayable`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from weir.caches import bounded

KEYWORDS: Final = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "for", "in", "do", "done", "{", "}", "!"}
)
DEEPEST: Final = 50
_SEPARATORS: Final = (";", "\n")
_OPERATORS: Final = ("&&", "||", ";;", ">>", ">&", "<<", "&>", "|", "&", ";", "\n", "(", ")", ">", "<")


class Unplayable(Exception):
    """A script or program that cannot be played."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a word."""

    kind: str  #: text, variable, command, arithmetic
    text: str
    quoted: bool = False
    operator: str = ""  #: of `${name:-word}`
    word: tuple[Part, ...] = ()
    script: Script | None = None


Word = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Redirection:
    """Output that goes to a file, or to another stream (`2>&1`)."""

    stream: int
    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments, a command and its arguments."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]


@dataclass(frozen=True, slots=True)
class If:
    branches: tuple[tuple[Script, Script], ...]
    otherwise: Script | None


@dataclass(frozen=True, slots=True)
class While:
    condition: Script
    body: Script
    until: bool


@dataclass(frozen=True, slots=True)
class For:
    name: str
    words: tuple[Word, ...]
    body: Script


@dataclass(frozen=True, slots=True)
class Group:
    body: Script
    subshell: bool


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    body: Script


Command = Simple | If | While | For | Group | Function


@dataclass(frozen=True, slots=True)
class Pipeline:
    commands: tuple[Command, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """Pipelines, each with what has to come before it: "" (anything), "&&" or "||"."""

    entries: tuple[tuple[str, Pipeline], ...] = ()


@bounded(most=512, longest=4096)
def parse(text: str) -> Script:
    """Return what a script says; raises Unplayable.

    >>> [operator for operator, _ in parse("true && exit 3 || exit 4").entries]
    ['', '&&', '||']
    """
    if len(text) > 65536:
        raise Unplayable("the script is too long")
    reader = _Reader(text)
    found = reader.script(())
    if reader.peek():
        raise Unplayable(f"unexpected {reader.peek()!r}")
    return found


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    depth: int = field(default=0)

    # ── characters ───────────────────────────────────────────────────────────────────────────────

    def _blank(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at] in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text[self.at] == "#":
                while self.at < len(self.text) and self.text[self.at] != "\n":
                    self.at += 1
            else:
                return

    def peek(self) -> str:
        """Return the operator or word that comes next, as it is written; nothing at the end."""
        self._blank()
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.at):
                return operator
        start, end = self.at, self.at
        while end < len(self.text) and self.text[end] not in " \t\n;&|()<>":
            end += 1
        return self.text[start:end]

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise Unplayable(f"{expected!r} is missing")
        self.at += len(expected)

    def _newlines(self) -> None:
        while self.peek() == "\n":
            self.at += 1

    # ── commands ─────────────────────────────────────────────────────────────────────────────────

    def script(self, ends: tuple[str, ...]) -> Script:
        """Read commands until one of *ends* would begin one."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unplayable("the script is nested too deeply")
        entries: list[tuple[str, Pipeline]] = []
        operator = ""
        while True:
            self._newlines()
            following = self.peek()
            if not following or following in ends:
                break
            entries.append((operator, self._pipeline()))
            following = self.peek()
            if following in ("&&", "||"):
                operator = following
                self.at += 2
                continue
            operator = ""
            if following in _SEPARATORS:
                self.at += 1
            elif following and following not in ends:
                raise Unplayable(f"{following!r} cannot be played")
        if operator:
            raise Unplayable(f"nothing follows {operator!r}")
        self.depth -= 1
        return Script(tuple(entries))

    def _pipeline(self) -> Pipeline:
        negated = self.peek() == "!"
        if negated:
            self.at += 1
        commands = [self._command()]
        while self.peek() == "|":
            self.at += 1
            self._newlines()
            commands.append(self._command())
        return Pipeline(tuple(commands), negated)

    def _command(self) -> Command:
        following = self.peek()
        if following == "if":
            return self._if()
        if following in ("while", "until"):
            self.at += len(following)
            condition = self.script(("do",))
            return While(condition, self._body(), following == "until")
        if following == "for":
            return self._for()
        if following in ("{", "("):
            self.at += 1
            closing = "}" if following == "{" else ")"
            body = self.script((closing,))
            self.take(closing)
            return Group(body, following == "(")
        if following in KEYWORDS:
            raise Unplayable(f"unexpected {following!r}")
        if following.isidentifier() and self._opens_function(following):
            return self._function(following)
        return self._simple()

    def _opens_function(self, name: str) -> bool:
        rest = self.text[self.at + len(name) :].lstrip(" \t")
        return rest.startswith("(") and rest[1:].lstrip(" \t").startswith(")")

    def _function(self, name: str) -> Function:
        self.at += len(name)
        self.take("(")
        self.take(")")
        self._newlines()
        self.take("{")
        body = self.script(("}",))
        self.take("}")
        return Function(name, body)

    def _if(self) -> If:
        branches: list[tuple[Script, Script]] = []
        otherwise: Script | None = None
        word = "if"
        while word in ("if", "elif"):
            self.take(word)
            condition = self.script(("then",))
            self.take("then")
            branches.append((condition, self.script(("elif", "else", "fi"))))
            word = self.peek()
        if word == "else":
            self.take("else")
            otherwise = self.script(("fi",))
        self.take("fi")
        return If(tuple(branches), otherwise)

    def _for(self) -> For:
        self.take("for")
        name = self.peek()
        if not name.isidentifier():
            raise Unplayable("for needs a name")
        self.at += len(name)
        self.take("in")
        words: list[Word] = []
        while self.peek() not in _SEPARATORS:
            words.append(self.word())
        self.at += 1
        self._newlines()
        return For(name, tuple(words), self._body())

    def _body(self) -> Script:
        self.take("do")
        body = self.script(("done",))
        self.take("done")
        return body

    def _simple(self) -> Simple:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirections: list[Redirection] = []
        doubled = self.peek() == "[["  # inside [[ ]], && and ( are words of the test
        while True:
            following = self.peek()
            if doubled and words and following in ("&&", "||", "<", ">", "(", ")"):
                words.append((Part("text", following),))
                self.at += len(following)
                continue
            if following[:1] in "12" and self._redirects(1):
                redirections.append(self._redirection(int(following[0]), 1))
                continue
            if following in (">", ">>", ">&"):
                redirections.append(self._redirection(1, 0))
                continue
            if not following or following in _OPERATORS:
                break
            name, equals, _ = following.partition("=")
            if equals and not words and name.isidentifier():
                self.at += len(name) + 1
                assignments.append((name, self.word()))
                continue
            words.append(self.word())
            if doubled and words[-1] == (Part("text", "]]"),):
                doubled = False
        if not words and not assignments and not redirections:
            raise Unplayable(f"unexpected {self.peek()!r}")
        return Simple(tuple(assignments), tuple(words), tuple(redirections))

    def _redirects(self, after: int) -> bool:
        return self.text[self.at + after : self.at + after + 1] == ">"

    def _redirection(self, stream: int, skip: int) -> Redirection:
        self.at += skip
        operator = self.peek()
        self.at += len(operator)
        self._blank()
        return Redirection(stream, operator, self.word())

    # ── words ────────────────────────────────────────────────────────────────────────────────────

    def word(self) -> Word:
        """Read one word."""
        parts: list[Part] = []
        while self.at < len(self.text):
            here = self.text[self.at]
            if here in " \t\n;&|()<>":
                break
            if here == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise Unplayable("a quote is not closed")
                parts.append(Part("text", self.text[self.at + 1 : end], True))
                self.at = end + 1
            elif here == '"':
                self.at += 1
                parts += self._double_quoted()
            elif here == "\\":
                parts.append(Part("text", self.text[self.at + 1 : self.at + 2], True))
                self.at += 2
            elif here == "$":
                parts.append(self._dollar(False))
            elif here == "`":
                raise Unplayable("backquotes cannot be played")
            else:
                start = self.at
                while self.at < len(self.text) and self.text[self.at] not in " \t\n;&|()<>'\"\\$`":
                    self.at += 1
                parts.append(Part("text", self.text[start : self.at]))
        return tuple(parts)

    def _double_quoted(self) -> list[Part]:
        parts: list[Part] = [Part("text", "", True)]
        while self.at < len(self.text):
            here = self.text[self.at]
            if here == '"':
                self.at += 1
                return parts
            if here == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                parts.append(Part("text", self.text[self.at + 1].replace("\n", ""), True))
                self.at += 2
            elif here == "$":
                parts.append(self._dollar(True))
            elif here == "`":
                raise Unplayable("backquotes cannot be played")
            else:
                start = self.at
                self.at += 1
                while self.at < len(self.text) and self.text[self.at] not in '"\\$`':
                    self.at += 1
                parts.append(Part("text", self.text[start : self.at], True))
        raise Unplayable("a quote is not closed")

    def _dollar(self, quoted: bool) -> Part:
        rest = self.text[self.at + 1 : self.at + 3]
        if rest == "((":
            end = self.text.find("))", self.at + 3)
            if end < 0:
                raise Unplayable("$(( is not closed")
            inner = self.text[self.at + 3 : end]
            self.at = end + 2
            return Part("arithmetic", inner, quoted)
        if rest[:1] == "(":
            self.at += 2
            script = self.script((")",))
            self.take(")")
            return Part("command", "", quoted, script=script)
        if rest[:1] == "{":
            return self._braces(quoted)
        if rest[:1] and rest[0] in "?#@*$!0123456789-":
            self.at += 2
            return Part("variable", rest[0], quoted)
        end = self.at + 1
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        name = self.text[self.at + 1 : end]
        self.at = end
        return Part("variable", name, quoted) if name else Part("text", "$", True)

    def _braces(self, quoted: bool) -> Part:
        end = self.text.find("}", self.at)
        if end < 0:
            raise Unplayable("${ is not closed")
        inner = self.text[self.at + 2 : end]
        self.at = end + 1
        name = inner
        for operator in (":-", ":?", ":+", ":="):
            name, found, word = inner.partition(operator)
            if found:
                if not name.isidentifier():
                    break
                return Part("variable", name, quoted, operator, _Reader(word).word())
            name = inner
        if not name.isidentifier() and not name.isdigit():
            raise Unplayable(f"${{{inner}}} cannot be played")
        return Part("variable", name, quoted)
