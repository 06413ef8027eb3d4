"""Strategies of Job and CronJob: generated labels and selectors.

Spec: Job selectors as `batch/v1` documents them.
"""

from __future__ import annotations

from weir.apiserver.strategies.apps import TemplateStrategy
from weir.apiserver.strategies.strategy import Context, Document
from weir.objects.kind import Kind


class JobStrategy(TemplateStrategy):
    """Jobs select their pods by the job's own uid unless `manualSelector` is set."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Generate the selector and the labels that satisfy it."""
        super().prepare_create(kind, new, context)
        spec = new["spec"]
        if spec.get("manualSelector"):
            return
        uid, name = new["metadata"]["uid"], new["metadata"].get("name", "")
        labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
        labels["batch.kubernetes.io/controller-uid"] = uid
        labels["batch.kubernetes.io/job-name"] = name
        labels["controller-uid"] = uid
        labels["job-name"] = name
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector["batch.kubernetes.io/controller-uid"] = uid


class CronJobStrategy(TemplateStrategy):
    """The template of the jobs of a schedule."""

    path = ("spec", "jobTemplate", "spec", "template")
