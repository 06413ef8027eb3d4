"""W050: an admission policy of `--policies` refuses this object."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.validate import validate


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield what the policies of the run say of an object that the server itself would take."""
    if facts.policies is None or any(True for _ in validate(subject.value, gates=facts.gates)):
        return
    from weir.policies.files import NotJudged

    for bound, said in facts.policies.judge(subject.value):
        if isinstance(said, NotJudged):
            yield Problem(
                ("kind",),
                f"not judged by ValidatingAdmissionPolicy '{bound.policy.name}': {said}",
                "",
                Severity.NOTE,
            )
            continue
        for refusal in said.refusals:
            yield Problem(("kind",), refusal.text())
        for text in said.warnings:
            yield Problem(("kind",), text, severity=Severity.WARNING)
        for failure in said.failures:
            text = f"'{failure['policy']}' with binding '{failure['binding']}' would note in the audit log"
            yield Problem(
                ("kind",), f"ValidatingAdmissionPolicy {text}: {failure['message']}", severity=Severity.NOTE
            )


RULE = Rule(
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
    check=check,
)
