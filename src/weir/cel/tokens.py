"""Token stream of the parser, with error recovery.

Spec: cel.md 14.2 for the wording of syntax errors. Mistakes are worded, and got over, as the generated parser that
Kubernetes uses does it: one token too many or too few is named as such, and after a mistake nothing more is reported
until a token fits again.
"""

from __future__ import annotations

from typing import ClassVar, Final

from weir.cel import lexer
from weir.cel.errors import Issue, Source
from weir.cel.lexer import EOF, Token

_TOKEN_ORDER = """
    == != in < <= >= > && || [ ] { } ( ) . , - ! ? : + * / % true false null
    NUM_FLOAT NUM_INT NUM_UINT STRING BYTES IDENTIFIER ESC_IDENTIFIER
"""
#: Token kinds in the order the generated parser numbers them; sets of expected tokens are listed in it.
_ORDER: Final = tuple(_TOKEN_ORDER.split())
_NAMED: Final = frozenset((*lexer.VALUES, lexer.IDENTIFIER, lexer.ESC_IDENTIFIER))


class Mistake(Exception):
    """A rule cannot go on; it has been reported."""


class TokenReader:
    """A place in a list of tokens, and the mistakes found up to it."""

    resumes: ClassVar[frozenset[str]] = frozenset()  #: tokens at which any rule can go on

    def __init__(self, source: Source, tokens: list[Token], issues: list[Issue]) -> None:
        self.source = source
        self.tokens = tokens
        self.issues = issues
        self.index = 0
        self.kind = tokens[0].kind
        self.recovering = False
        self.follow: list[frozenset[str]] = [frozenset((EOF,))]  # what may end each rule that is being read

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def advance(self) -> Token:
        token = self.tokens[self.index]
        if token.kind != EOF:
            self.index += 1
        self.kind = self.tokens[self.index].kind
        return token

    def take(self) -> Token:
        """Accept the current token: it fits, so mistakes are reported again."""
        self.recovering = False
        return self.advance()

    def ahead(self, distance: int = 1) -> str:
        at = min(self.index + distance, len(self.tokens) - 1)
        return self.tokens[at].kind

    def match(self, kind: str, after: frozenset[str]) -> Token | None:
        """Accept *kind*, forgiving one token too many or one missing; *after* may follow it."""
        if self.kind == kind:
            return self.take()
        if self.ahead() == kind and self.kind != EOF:
            self.extraneous(frozenset((kind,)))
            self.advance()
            return self.take()
        if self.kind in after:
            self.report(f"missing '{kind}' at '{_shown(self.token.text)}'")
            return None
        raise self.mismatched(frozenset((kind,)))

    def sync(self, expected: frozenset[str]) -> None:
        """Check that the current token is in *expected*, forgiving one token too many."""
        if self.kind in expected:
            return
        if self.ahead() in expected and self.kind != EOF:
            self.extraneous(expected)
            self.advance()
            self.recovering = False
            return
        raise self.mismatched(expected)

    def skip(self, more: frozenset[str] = frozenset()) -> None:
        """Drop tokens until one that an enclosing rule can use."""
        usable = self.resumes.union(more, *self.follow)
        while self.kind != EOF and self.kind not in usable:
            self.advance()

    # ── mistakes ─────────────────────────────────────────────────────────────────────────────────

    def issue(self, pos: int, message: str) -> None:
        self.issues.append(self.source.issue(pos, message))

    def report(self, message: str, pos: int | None = None) -> None:
        if not self.recovering:
            at = self.token.pos if pos is None else pos
            self.issues.append(self.source.issue(at, f"Syntax error: {message}"))
        self.recovering = True

    def extraneous(self, expected: frozenset[str]) -> None:
        """Report that the current token is one too many."""
        self.report(f"extraneous input '{_shown(self.token.text)}' expecting {_words(expected)}")

    def mismatched(self, expected: frozenset[str]) -> Mistake:
        """Report that the current token cannot stand here, and return that the rule cannot go on."""
        self.report(f"mismatched input '{_shown(self.token.text)}' expecting {_words(expected)}")
        return Mistake()

    def no_alternative(self, first: Token, ahead: int = 0) -> None:
        """Report that the tokens from *first* on, through *ahead* after the current one, begin nothing."""
        last = self.tokens[min(self.index + ahead, len(self.tokens) - 1)]
        text = self.source.text
        quoted = (
            text[first.pos : last.pos].rstrip()
            if last.kind == EOF
            else text[first.pos : last.pos + len(last.text)]
        )
        self.report(f"no viable alternative at input '{_shown(quoted)}'", last.pos)


def _shown(text: str) -> str:
    """Token text as messages quote it."""
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _words(expected: frozenset[str]) -> str:
    """A set of token kinds as the generated parser prints it."""
    if expected == frozenset((EOF,)):
        return EOF
    words = [kind if kind in _NAMED else f"'{kind}'" for kind in _ORDER if kind in expected]
    return words[0] if len(words) == 1 else "{" + ", ".join(words) + "}"
