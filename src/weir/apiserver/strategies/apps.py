"""Strategies of workloads: what their generation counts, and warnings about their templates.

Spec: apiserver.md 4 (generation), 5.2 (Deployment, DaemonSet).
"""

from __future__ import annotations

from collections.abc import Iterable

from weir.apiserver.strategies.core.pod_warnings import name_warnings, pod_warnings
from weir.apiserver.strategies.strategy import Context, Document, Strategy
from weir.objects.defaults.apps import TEMPLATE_GENERATION
from weir.objects.kind import Kind
from weir.values.integer import IntegerError, parse_int64


class TemplateStrategy(Strategy):
    """Whatever makes pods from a template warns as the pods would."""

    path: tuple[str, ...] = ("spec", "template")
    names_pods = True  #: whether pods are called after the object

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterable[str]:
        """Return what is odd about the template of a new object, or of one whose change counts."""
        if old is None and self.names_pods:
            yield from name_warnings(new["metadata"].get("name") or "", "Pod names and hostnames")
        if old is None or new["metadata"].get("generation") != old["metadata"].get("generation"):
            template: Document = new
            for name in self.path:
                template = template.get(name) or {}
            at = ".".join(self.path) + "."
            yield from pod_warnings(template.get("spec") or {}, template.get("metadata") or {}, at)


class DeploymentStrategy(TemplateStrategy):
    """Deployments also count changed annotations, because the controller copies them on."""

    def counts(self, new: Document, old: Document) -> bool:
        """Return whether spec or annotations changed."""
        return super().counts(new, old) or (new["metadata"].get("annotations") or {}) != (
            old["metadata"].get("annotations") or {}
        )


class DaemonSetStrategy(TemplateStrategy):
    """DaemonSets number their templates in an annotation."""

    names_pods = False

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """The first template is number one."""
        super().prepare_create(kind, new, context)
        annotations = new["metadata"].setdefault("annotations", {})
        given = annotations.get(TEMPLATE_GENERATION, "")
        annotations[TEMPLATE_GENERATION] = given if _generation(given) else "1"

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """A changed template gets the next number; an annotation left out is put back."""
        super().prepare_update(kind, new, old, context)
        before = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
        number = _generation(before) or 1
        if (new.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template"):
            number += 1
        new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(number)


class StatefulSetStrategy(TemplateStrategy):
    """StatefulSets need a name that is a label, so there is nothing to warn of."""

    names_pods = False


class PodTemplateStrategy(TemplateStrategy):
    """A template by itself."""

    path = ("template",)
    names_pods = False


def _generation(text: str) -> int:
    """Return the number of a template that an annotation holds, 0 when it holds none."""
    try:
        return max(parse_int64(text), 0)
    except IntegerError:
        return 0
