"""ValidatingAdmissionPolicy: evaluation for one request and one parameter.

Spec: admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy. Every validation is evaluated, also after a failing
one; an exhausted budget ends them all. Message expressions use what is left of the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from weir.cel import types
from weir.cel.errors import EvaluationError
from weir.cel.values import Value, type_of
from weir.compat.policies.expressions import MATCH_BUDGET, Composer, Expression, Inputs, OutOfBudget
from weir.compat.policies.matching import ConditionsFailed, conditions_hold

Document = Mapping[str, Any]
#: Results of the three sorts of expressions.
CONDITION: Final = (types.BOOL,)
MESSAGE: Final = (types.STRING,)
ANNOTATION: Final = (types.STRING, types.NULL)
_LONGEST_MESSAGE: Final = 5 * 1024


@dataclass(frozen=True, slots=True)
class Denial:
    """One validation that refused, or could not be evaluated."""

    index: int
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a policy: denials, audit annotations, and failed annotations."""

    denials: tuple[Denial, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    failed_annotations: tuple[str, ...] = ()


NOTHING: Final = Verdict()


class _Validation(NamedTuple):
    expression: Expression
    message_expression: Expression | None
    message: str
    reason: str


class ValidatingPolicy:
    """A policy whose expressions are compiled."""

    def __init__(self, document: Document) -> None:
        spec = document.get("spec") or {}
        self.document = document
        self.name = str(document["metadata"]["name"])
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self.match = spec.get("matchConstraints") or {}
        self._composer = Composer(spec.get("variables") or (), params=spec.get("paramKind") is not None)
        compiled = self._composer.expression
        self._conditions = [
            compiled(one.get("expression") or "", CONDITION) for one in spec.get("matchConditions") or ()
        ]
        self._validations = [
            _Validation(
                compiled(one.get("expression") or "", CONDITION),
                compiled(one["messageExpression"], MESSAGE, False) if one.get("messageExpression") else None,
                (one.get("message") or "").strip(),
                one.get("reason") or "Invalid",
            )
            for one in spec.get("validations") or ()
        ]
        self._annotations = [
            (one.get("key") or "", compiled(one.get("valueExpression") or "", ANNOTATION))
            for one in spec.get("auditAnnotations") or ()
        ]

    def judge(self, values: Mapping[str, Value]) -> Verdict:
        """Return what the policy says of a write; *values* holds all variables that an expression may name."""
        if self._conditions:
            # The namespace is declared, but match conditions are not given it.
            inputs = self._composer.inputs({**values, "namespaceObject": None}, MATCH_BUDGET)
            try:
                if not conditions_hold(self._conditions, inputs, ignore_failures=self.ignores_failures):
                    return NOTHING
            except ConditionsFailed as error:
                return self._failed(str(error))
        without_rights = {name: value for name, value in values.items() if not name.startswith("authorizer")}
        try:
            denials = self._validated(self._composer.inputs(values), without_rights)
            published, failed = self._annotated(self._composer.inputs(without_rights))
        except OutOfBudget as error:
            return self._failed(str(error))
        return Verdict(tuple(denials), tuple(published), tuple(failed))

    def _failed(self, message: str) -> Verdict:
        return NOTHING if self.ignores_failures else Verdict((Denial(0, message),))

    def _validated(self, inputs: Inputs, without_rights: Mapping[str, Value]) -> list[Denial]:
        answers: list[Value | EvaluationError] = []
        for validation in self._validations:
            try:
                answers.append(inputs.evaluate(validation.expression))
            except EvaluationError as error:
                answers.append(error)
        spent = ""
        messages: list[str] = []
        try:
            messages = self._messages(self._composer.inputs(without_rights, inputs.budget))
        except OutOfBudget as error:
            spent = f"failed messageExpression: {error}"
        denials = []
        for index, (validation, answer) in enumerate(zip(self._validations, answers, strict=True)):
            if isinstance(answer, EvaluationError) or spent:
                if not self.ignores_failures:
                    denials.append(
                        Denial(index, str(answer) if isinstance(answer, EvaluationError) else spent)
                    )
            elif answer is not True:
                text = messages[index] or validation.message
                text = text or f"failed expression: {validation.expression.text.strip()}"
                denials.append(Denial(index, text, validation.reason))
        return denials

    def _messages(self, inputs: Inputs) -> list[str]:
        """Return what the message expressions say, "" where there is none, or none that can be used."""
        messages = []
        for validation in self._validations:
            text: Value = ""
            if validation.message_expression is not None:
                try:
                    text = inputs.evaluate(validation.message_expression)
                except EvaluationError:
                    text = ""
            text = text.strip() if isinstance(text, str) else ""
            messages.append("" if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE else text)
        return messages

    def _annotated(self, inputs: Inputs) -> tuple[list[tuple[str, str]], list[str]]:
        published, failed = [], []
        for key, expression in self._annotations:
            try:
                value = inputs.evaluate(expression)
            except EvaluationError as error:
                if not self.ignores_failures:
                    failed.append(str(error))
                continue
            if isinstance(value, str):
                if value.strip():
                    published.append((key, value.strip()))
            elif value is not None:
                failed.append(
                    f"valueExpression '{expression.text}' resulted in unsupported return type: "
                    f"{type_of(value)}. Return type must be either string or null."
                )
        return published, failed
