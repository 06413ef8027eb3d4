"""Field selectors.

Spec: apiserver.md 9.2 "Selectors". Only `=`, `==` and `!=` joined by commas, on the fields each kind supports; a
missing field counts as the empty string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.values.quoting import quote

Document = Mapping[str, Any]
Getter = Callable[[Document], str]


class SelectorError(ValueError):
    """A selector that cannot be read or names a field its kind does not offer."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One comparison of one field."""

    field: str
    equal: bool
    value: str

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{self.value}"


def getter(*names: str) -> Getter:
    """Return what reads the field at a path, as text; a missing one is empty."""

    def read(document: Document) -> str:
        found: Any = document
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is None:
            return ""
        if isinstance(found, bool):
            return "true" if found else "false"
        return str(found)

    return read


def _flag(*names: str) -> Getter:
    read = getter(*names)
    return lambda document: read(document) or "false"


def _count(*names: str) -> Getter:
    read = getter(*names)
    return lambda document: read(document) or "0"


def _event_source(document: Document) -> str:
    return getter("source", "component")(document) or getter("reportingComponent")(document)


def _pod_ip(document: Document) -> str:
    addresses = (document.get("status") or {}).get("podIPs") or ()
    return addresses[0].get("ip", "") if addresses else getter("status", "podIP")(document)


def _plain(*dotted: str) -> dict[str, Getter]:
    return {name: getter(*name.split(".")) for name in dotted}


_CERTIFICATES = "certificates.k8s.io"
_META = _plain("metadata.name", "metadata.namespace")
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

#: (group, kind) → what it offers besides metadata.name and metadata.namespace
_OFFERED: dict[tuple[str, str], dict[str, Getter]] = {
    ("", "Pod"): {
        **_plain(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.nominatedNodeName",
        ),
        "spec.hostNetwork": _flag("spec", "hostNetwork"),
        "status.podIP": _pod_ip,
        "status.podIPs": _pod_ip,
    },
    ("", "Node"): {"spec.unschedulable": _flag("spec", "unschedulable")},
    ("", "Namespace"): _plain("status.phase"),
    ("", "Secret"): _plain("type"),
    ("", "Service"): _plain("spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): {"status.replicas": _count("status", "replicas")},
    ("batch", "Job"): {"status.successful": _count("status", "succeeded")},
    ("", "Event"): {
        **{f"involvedObject.{name}": getter("involvedObject", name) for name in _REFERENCE},
        **_plain("reason", "reportingComponent", "type"),
        "source": _event_source,
    },
    ("events.k8s.io", "Event"): {
        **{f"regarding.{name}": getter("regarding", name) for name in _REFERENCE},
        **_plain("reason", "type"),
        "reportingController": getter("reportingController"),
    },
    ("resource.k8s.io", "ResourceSlice"): _plain("spec.driver", "spec.nodeName", "spec.pool.name"),
    (_CERTIFICATES, "CertificateSigningRequest"): _plain("spec.signerName"),
    (_CERTIFICATES, "ClusterTrustBundle"): _plain("spec.signerName"),
    (_CERTIFICATES, "PodCertificateRequest"): _plain("spec.nodeName", "spec.podName", "spec.signerName"),
}
#: kinds that refuse the namespace they have not
_WITHOUT_NAMESPACE = frozenset(
    {
        ("resource.k8s.io", "ResourceSlice"),
        ("", "Node"),
        ("", "Namespace"),
        (_CERTIFICATES, "CertificateSigningRequest"),
        (_CERTIFICATES, "ClusterTrustBundle"),
        (_CERTIFICATES, "PodCertificateRequest"),
    }
)
#: kinds whose conversion words the refusal of an unknown field in its own way, where it is not the common one
_OWN_WORDING: dict[tuple[str, str], str] = {
    ("batch", "Job"): 'field label "{field}" not supported for Job',
    ("resource.k8s.io", "ResourceSlice"): "field label not supported for resource.k8s.io/{version}, "
    "Kind=ResourceSlice: {field}",
}


def fields_of(group: str, kind: str) -> Mapping[str, Getter]:
    """Return the fields that objects of this kind can be selected by."""
    fields = {**_META, **_OFFERED.get((group, kind), {})}
    if (group, kind) in _WITHOUT_NAMESPACE:
        del fields["metadata.namespace"]
    return fields


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none at all selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def bind(
        self, group: str, kind: str, version: str = "v1", custom: Mapping[str, Getter] | None = None
    ) -> tuple[tuple[Getter, bool, str], ...]:
        """Return the requirements as (getter, equal, value); raises for a field the kind does not offer.

        *custom* is what a custom kind offers, whose definition says so.
        """
        offered = fields_of(group, kind) if custom is None else custom
        bound = []
        for requirement in self.requirements:
            getter = offered.get(requirement.field)
            if getter is None:
                if custom is not None:
                    raise SelectorError(f"field label not supported: {requirement.field}")
                if (group, kind) in _OFFERED:
                    words = _OWN_WORDING.get((group, kind), "field label not supported: {field}")
                    raise SelectorError(words.format(field=requirement.field, version=version))
                known = ", ".join(quote(name) for name in offered)
                raise SelectorError(f"{quote(requirement.field)} is not a known field selector: only {known}")
            bound.append((getter, requirement.equal, requirement.value))
        return tuple(bound)

    def matches(self, document: Document, group: str = "", kind: str = "") -> bool:
        """Return whether this selects *document*.

        >>> pod = {"metadata": {"name": "web"}, "status": {"phase": "Pending"}}
        >>> parse("status.phase!=Running,metadata.name=web").matches(pod, "", "Pod")
        True
        """
        return all((get(document) == value) is equal for get, equal, value in self.bind(group, kind))

    def value_of(self, field: str) -> str | None:
        """Return the value an equality requirement fixes *field* to, if one does."""
        return next((r.value for r in self.requirements if r.equal and r.field == field), None)

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


_ESCAPE_OR_COMMA: Final = re.compile(r"\\.?|,", re.DOTALL)
_OPERATOR: Final = re.compile("!=|==|=")
#: Bounded because evaluation blocks the event loop; clients that need more can list all.
MOST_REQUIREMENTS: Final = 4096


def parse(text: str) -> Selector:
    r"""Return the selector *text* stands for; raises SelectorError.

    >>> str(parse("a=1,b!=2"))
    'a=1,b!=2'
    >>> parse("metadata.name")
    Traceback (most recent call last):
    ...
    weir.selectors.fields.SelectorError: invalid selector: 'metadata.name'; can't understand 'metadata.name'
    """
    requirements: list[Requirement] = []
    terms = _terms(text)
    if len(terms) > MOST_REQUIREMENTS:
        raise SelectorError(f"invalid selector: it has more than {MOST_REQUIREMENTS} requirements")
    for part in terms:
        if not part:
            continue
        operator = _OPERATOR.search(part)
        if operator is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        value = _unescape(part[operator.end() :])
        requirements.append(Requirement(part[: operator.start()], operator[0] != "!=", value))
    return Selector(tuple(requirements))


def _terms(text: str) -> list[str]:
    """Split at commas that no backslash protects."""
    if "\\" not in text:
        return text.split(",")
    terms, start = [], 0
    for found in _ESCAPE_OR_COMMA.finditer(text):
        if found[0] == ",":
            terms.append(text[start : found.start()])
            start = found.end()
    terms.append(text[start:])
    return terms


def _unescape(text: str) -> str:
    if not any(char in text for char in "\\,="):
        return text
    out, escaped = [], False
    for char in text:
        if escaped:
            if char not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
            out.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            out.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(out)
