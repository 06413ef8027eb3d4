"""Rules about files and objects as a whole: unreadable, written twice, unknown, refused by a policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weir.fields.documents import find_kind_problem, show_path
from weir.lint.rule import Finding, Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.objects.manifest import ManifestError
from weir.validate import validate

_LONGEST_LINE: Final = 400


def _unreadable(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield nothing: what cannot be read never becomes a subject."""
    return iter(())


def unreadable(error: ManifestError, text: str) -> Finding:
    """Return the finding that stands for a file that cannot be read."""
    place = error.place
    lines = text.split("\n")
    source = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
    if not source.replace("\t", " ").rstrip("\r").isprintable():  # a binary file
        source = ""
    return Finding(
        rule=W000,
        severity=W000.severity,
        file=place.file,
        line=place.line,
        column=place.column,
        width=1,
        source=source[:_LONGEST_LINE],
        object="",
        field="",
        message=error.problem,
        fix=error.fix,
    )


W000 = Rule(
    code="W000",
    name="unreadable",
    severity=Severity.ERROR,
    summary="A file cannot be read; nothing in it was checked.",
    help="""\
The other files are still checked. Two causes are named, because the parser's own words do not lead to them: a template
that was not rendered (`{{ .Values.image }}`), which `helm template . | weir lint -` solves, and a tab in the
indentation, which YAML does not allow.""",
    check=_unreadable,
)


def _duplicate_key(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield each key that stands twice in one mapping."""
    for path, _place in subject.document.duplicates:
        yield Problem(
            path,
            f'strict decoding error: duplicate field "{show_path(path)}": only the last one counts',
            "remove one of them",
        )


W002 = Rule(
    code="W002",
    name="duplicate-key",
    severity=Severity.ERROR,
    summary="A key is written twice in one mapping; only the last one counts.",
    help="""\
YAML parsers keep the last of two equal keys and drop the first without a word. kubectl refuses such a file, other
tools do not: a toleration that was meant to be there may be the one that is dropped.""",
    check=_duplicate_key,
)


def _kind_not_known(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield that an object was not checked; one whose kind is misspelt is refused by W001."""
    if subject.is_checked or not subject.kind or find_kind_problem(subject.api_version, subject.kind):
        return
    yield Problem(
        ("kind",),
        f"not checked: weir does not know kind {subject.kind} of {subject.api_version or 'no version'}",
        "nothing to do where the cluster has it (a CustomResourceDefinition, or an API weir does not serve)",
        Severity.ERROR if facts.strict else None,
    )


W015 = Rule(
    code="W015",
    name="kind-not-known",
    severity=Severity.NOTE,
    summary="The kind is not known, so the object was not checked.",
    help="""\
weir checks the kinds it serves. Objects of other kinds (custom resources, APIs without taints and tolerations) are
counted as not checked in every format, and reported as errors with `--strict`, where a pipeline must not pass what was
not looked at. A kind that is only misspelt is refused by [W001](W001.md) with the one that was meant.""",
    check=_kind_not_known,
)


def _policy(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield what the policies of the run say of an object that the server itself would take."""
    if facts.policies is None or any(True for _ in validate(subject.value, gates=facts.gates)):
        return
    from weir.compat.policies.files import NotJudged

    for bound, judgement in facts.policies.judge(subject.value):
        if isinstance(judgement, NotJudged):
            yield Problem(
                ("kind",),
                f"not judged by ValidatingAdmissionPolicy '{bound.policy.name}': {judgement}",
                "",
                Severity.NOTE,
            )
            continue
        for refusal in judgement.refusals:
            yield Problem(("kind",), refusal.text())
        for text in judgement.warnings:
            yield Problem(("kind",), text, severity=Severity.WARNING)
        for failure in judgement.failures:
            text = f"'{failure['policy']}' with binding '{failure['binding']}' would note in the audit log"
            yield Problem(
                ("kind",), f"ValidatingAdmissionPolicy {text}: {failure['message']}", severity=Severity.NOTE
            )


W050 = Rule(
    code="W050",
    name="refused-by-policy",
    severity=Severity.ERROR,
    summary="A ValidatingAdmissionPolicy of `--policies` refuses the object, or warns of it.",
    help="""\
`weir lint --policies DIR` reads ValidatingAdmissionPolicies and their bindings from files and judges every manifest by
them, as a create: with the defaults that a server fills in, and with parameters, namespaces and definitions that are
among the files. A refusal is an error, what a binding only warns of a warning, what it only notes in the audit log a
note.

What no file says is not guessed: a policy that asks who writes (`request.userInfo`), what they may do (`authorizer`),
or about a namespace or parameters that are not among the files has not judged the object, which is a note and counted
at the end. `weir up` judges it with all of that.""",
    check=_policy,
)
