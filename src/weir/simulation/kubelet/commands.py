"""Outcomes of the images and commands of containers that a simulated node knows.

An image is missing if its registry has the label `invalid` (RFC 2606), its tag is `404`, or its name says so.

A command is looked up and never executed: `sleep`, `true`, `false`, `echo`, `printf`, `tail -f /dev/null`, and `sh -c`
with a list of these, `exit`, `trap "exit N" TERM` and an endless `while true` at its end. Every other command
(variables, conditions, pipes, files) has no known outcome; annotations or the node's class decide
(weir.simulation.kubelet.behaviour, decision 128).
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

_REFERENCE: Final = re.compile(
    r"(?:(?P<registry>[a-zA-Z0-9][a-zA-Z0-9.-]*(?::\d+)?)/)?"
    r"(?P<path>[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@[a-z0-9+._-]+:[0-9a-fA-F]{32,})?"
)
_SAYS_SO: Final = (
    "doesnt-exist",
    "does-not-exist",
    "nonexistent",
    "non-existent",
    "broken-image",
    "no-such-image",
)
#: Commands of agnhost that serve until they are stopped.
_SERVERS: Final = (
    *(
        "pause",
        "netexec",
        "serve-hostname",
        "test-webserver",
        "liveness",
        "webhook",
        "porter",
        "net",
        "nettest",
    ),
    *("grpc-health-checking", "guestbook", "audit-proxy", "fake-gitserver", "inclusterclient"),
)


class Reference(NamedTuple):
    """A name of an image, taken apart."""

    registry: str
    repository: str
    tag: str


def reference(image: str) -> Reference | None:
    """Return the parts of an image's name; None when it is no name at all.

    >>> reference("registry.k8s.io/pause:3.10")
    Reference(registry='registry.k8s.io', repository='pause', tag='3.10')
    >>> reference("!!!") is None
    True
    """
    parts = _REFERENCE.fullmatch(image)
    if parts is None:
        return None
    host, path, tag = parts["registry"] or "", parts["path"], parts["tag"] or "latest"
    if "." in host or ":" in host or host == "localhost":
        return Reference(host, path, tag)
    return Reference("docker.io", f"{host}/{path}".lstrip("/"), tag)


def is_missing(image: str) -> bool:
    """Return whether an image is named as one that does not exist.

    >>> [is_missing(each) for each in ("web:1", "web:404", "invalid.registry.k8s.io/invalid/alpine:3.1")]
    [False, True, True]
    """
    name = reference(image)
    if name is None:
        return False
    labels = name.registry.partition(":")[0].split(".")
    return "invalid" in labels or name.tag == "404" or any(word in name.repository for word in _SAYS_SO)


def runs_forever(image: str, command: Sequence[str], arguments: Sequence[str]) -> bool:
    """Return whether a container of *image* is a server that runs until it is stopped, whatever its restart policy.

    >>> runs_forever("registry.k8s.io/pause:3.10", (), ()), runs_forever("e2e/agnhost:2", (), ("netexec",))
    (True, True)
    """
    name = reference(image)
    program = name.repository.rpartition("/")[2] if name is not None else ""
    entrypoint = command or {"pause": ("/pause",), "nginx": ("nginx",), "agnhost": ("/agnhost",)}.get(
        program, ()
    )
    words = (*entrypoint, *arguments)
    if words[:1] in (("/agnhost",), ("agnhost",)):
        return len(words) == 1 or words[1] in _SERVERS
    return words[:1] in (("/pause",), ("nginx",))


Document = Mapping[str, Any]
Output = tuple[tuple[float, str], ...]  #: seconds after the start, text
MOST_CHARACTERS: Final = 4096  # of a command
MOST_ROUNDS: Final = 200  # of a loop whose output is kept
MOST_OUTPUT: Final = 1 << 16  # characters of one run that are kept
_OUTPUT_OVERHEAD: Final = 50  # characters that a piece of output counts more
TERMINATION_LOG: Final = "/dev/termination-log"
LONGEST_LOG_MESSAGE: Final = 2048
MOST_LOG_LINES: Final = 80
_FOLDERS: Final = ("", "/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin")
_SHELLS: Final = ("sh", "bash", "ash", "dash")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)")
_TOKEN: Final = re.compile(
    r"""[ \t]+ | (?P<separator> && | \|\| | [;\n] ) | (?P<redirect> > )
    | (?P<word> (?: [\w./:=,+@%-] | '[^']*' | "[^"$`\\]*" )+ )""",
    re.VERBOSE | re.ASCII,
)
_QUOTED: Final = re.compile(r"""'([^']*)'|"([^"]*)\"""")


class Outcome(NamedTuple):
    """What one run of a container does by itself."""

    seconds: float  #: until it ends
    exit_code: int = 0
    output: Output = ()
    message: str = ""  #: termination message
    stop_exit_code: int | None = None  #: after SIGTERM, if its command says so


class _Statement(NamedTuple):
    separator: str  #: before it
    words: tuple[str, ...]
    target: str  #: of a redirection of its output, or ""


class _Unknown(Exception):
    """A command whose outcome is not known."""


def outcome_of(container: Document) -> Outcome | None:
    """Return the outcome of a container's command; None when it is not known.

    >>> outcome_of({"image": "busybox", "command": ["sh", "-c", "sleep 5; exit 3"]})
    Outcome(seconds=5.0, exit_code=3, output=(), message='', stop_exit_code=None)
    >>> outcome_of({"image": "busybox", "command": ["sh", "-c", "exit $CODE"]}) is None
    True
    """
    words = (*(container.get("command") or ()), *(container.get("args") or ()))
    if runs_forever(container.get("image", ""), container.get("command") or (), container.get("args") or ()):
        return Outcome(math.inf)
    if not container.get("command"):
        return None  # the image's entrypoint is not known
    path = container.get("terminationMessagePath") or TERMINATION_LOG
    outcome = command_outcome(words, path)
    if outcome is None or outcome.message or not outcome.exit_code:
        return outcome
    if container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
        return outcome
    lines = "".join(text for _, text in outcome.output).splitlines(keepends=True)
    return outcome._replace(message="".join(lines[-MOST_LOG_LINES:])[-LONGEST_LOG_MESSAGE:])


def command_outcome(words: Sequence[str], message_path: str = TERMINATION_LOG) -> Outcome | None:
    """Return the outcome of a command; None when it is not known.

    >>> command_outcome(["/bin/false"]).exit_code
    1
    """
    if not words or sum(map(len, words)) > MOST_CHARACTERS or any("$(" in word for word in words):
        return None
    try:
        if _name(words[0]) in _SHELLS:
            if len(words) < 3 or words[1] not in ("-c", "-ec"):
                return None
            return _Script(message_path, stops_on_error=words[1] == "-ec").outcome(words[2])
        seconds, code, text = _utility(words)
    except _Unknown:
        return None
    return Outcome(seconds, code, ((0.0, text),) if text else ())


class _Script:
    """One run of the statements of a shell script."""

    def __init__(self, message_path: str, *, stops_on_error: bool) -> None:
        self._message_path, self._stops_on_error = message_path, stops_on_error
        self._seconds, self._code, self._message = 0.0, 0, ""
        self._output: list[tuple[float, str]] = []
        self._output_left = MOST_OUTPUT
        self._stop_exit_code: int | None = None

    def outcome(self, text: str) -> Outcome:
        statements, loop = _split_loop(list(_statements(text)))
        if self._stops_on_error and any(each.separator != ";" for each in (*statements, *loop)):
            raise _Unknown("a list in which failures may be ignored")
        if self._run(statements) or not loop:
            return self._outcome(self._seconds)
        before, printed = self._seconds, len(self._output)
        if self._run(loop) or (self._stops_on_error and self._code):
            return self._outcome(self._seconds)
        if self._seconds == before:
            raise _Unknown("a loop that takes no time")
        self._repeat(self._output[printed:], self._seconds - before)
        return self._outcome(math.inf)

    def _repeat(self, output: Sequence[tuple[float, str]], seconds: float) -> None:
        """Print the output of a loop's first round again and again, as far as it is kept."""
        for number in range(1, MOST_ROUNDS):
            for after, text in output:
                self._print(after + number * seconds, text)
            if self._output_left < 0:
                break

    def _outcome(self, seconds: float) -> Outcome:
        code = self._code if seconds < math.inf else 0
        return Outcome(seconds, code, tuple(self._output), self._message, self._stop_exit_code)

    def _run(self, statements: Sequence[_Statement]) -> bool:
        """Run statements one after the other; return whether the script ended in one of them."""
        for separator, words, target in statements:
            if self._code and self._stops_on_error and separator == ";":
                return True
            if (separator == "&&" and self._code) or (separator == "||" and not self._code):
                continue
            if words[0] == "exit":
                self._code = _exit_code(words[1:], self._code)
                return True
            if words[0] == "trap" and not target:
                self._code, self._stop_exit_code = 0, _trapped_exit_code(words[1:])
                continue
            is_exec = words[0] == "exec"
            seconds, self._code, text = _utility(words[1:] if is_exec else words)
            if target == self._message_path:
                self._message = text
            elif target not in ("", "/dev/null"):
                raise _Unknown("a file")
            elif text and not target:
                self._print(self._seconds, text)
            self._seconds += seconds
            if is_exec or self._seconds == math.inf:
                return True
        return False

    def _print(self, after: float, text: str) -> None:
        self._output_left -= len(text) + _OUTPUT_OVERHEAD
        if self._output_left >= 0:
            self._output.append((after, text))


def _statements(text: str) -> Iterator[_Statement]:
    separator, words, target = ";", list[str](), ""
    redirected = False
    position, text = 0, text + "\n"
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise _Unknown(text[position])
        position = token.end()
        if token["redirect"]:
            if redirected or target:
                raise _Unknown("two redirections")
            redirected = True
        elif word := token["word"]:
            plain = _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", word)
            if redirected:
                target, redirected = plain, False
            else:
                words.append(plain)
        elif token["separator"]:
            if redirected:
                raise _Unknown("a redirection to nothing")
            if words:
                yield _Statement(separator, tuple(words), target)
                separator, words, target = ";", [], ""
            elif token["separator"] in ("&&", "||") or target:
                raise _Unknown("an empty statement")
            if token["separator"] in ("&&", "||"):
                separator = token["separator"]
    if separator != ";":
        raise _Unknown("a list without an end")


def _split_loop(statements: list[_Statement]) -> tuple[list[_Statement], list[_Statement]]:
    """Return the statements before an endless loop, and those inside of it."""
    for number, statement in enumerate(statements):
        if statement.words[0] != "while":
            continue
        body, last = statements[number + 1 : -1], statements[-1]
        if statement.words not in (("while", "true"), ("while", ":")) or statement.separator != ";":
            raise _Unknown("a condition")
        if not body or body[0].words[0] != "do" or len(body[0].words) < 2 or last.words != ("done",):
            raise _Unknown("a loop")
        body[0] = _Statement(";", body[0].words[1:], body[0].target)
        return statements[:number], body
    return statements, []


def _utility(words: Sequence[str]) -> tuple[float, int, str]:
    """Return seconds, exit code and output of a command; raises _Unknown."""
    name, arguments = _name(words[0]) if words else "", list(words[1:])
    if name in ("true", ":"):
        return 0.0, 0, ""
    if name == "false":
        return 0.0, 1, ""
    if name == "sleep" and arguments:
        return math.fsum(map(_duration, arguments)), 0, ""
    if name == "tail" and arguments == ["-f", "/dev/null"]:
        return math.inf, 0, ""
    if name == "echo" and not any("\\" in each for each in arguments):
        newline = arguments[:1] != ["-n"]
        rest = arguments if newline else arguments[1:]
        if not rest or not re.fullmatch("-[neE]+", rest[0]):
            return 0.0, 0, " ".join(rest) + "\n" * newline
    if name == "printf" and arguments:
        layout, *values = arguments
        if layout.count("%") == layout.count("%s") == len(values):
            layout = layout.replace("\\n", "\n").replace("\\t", "\t")
            if "\\" not in layout:
                return 0.0, 0, layout % tuple(values)
    raise _Unknown(name)


def _name(word: str) -> str:
    """Return the name of a command without the folder where commands lie."""
    folder, name = posixpath.split(word)
    return name if folder in _FOLDERS else word


def _duration(text: str) -> float:
    if text in ("infinity", "inf"):
        return math.inf
    parts = _DURATION.fullmatch(text)
    if parts is None:
        raise _Unknown(text)
    return float(parts[1]) * _UNITS[parts[2] or "s"]


def _exit_code(arguments: Sequence[str], last: int) -> int:
    if not arguments:
        return last
    if len(arguments) > 1 or not re.fullmatch(r"\d{1,9}", arguments[0], re.ASCII):
        raise _Unknown("an exit code")
    return int(arguments[0]) % 256


def _trapped_exit_code(arguments: Sequence[str]) -> int:
    """Return the exit code of a trap that exits on SIGTERM; raises _Unknown."""
    action, signals = (arguments[0].split() if arguments else []), arguments[1:]
    if action[:1] != ["exit"] or not {"TERM", "SIGTERM"}.intersection(signals):
        raise _Unknown("a trap")
    return _exit_code(action[1:], 0)
