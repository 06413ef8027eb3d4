"""Validation of pod templates in workloads.

Spec: core.md 2.3 (paths), 2.7 "Ratcheting"; apiserver.md 13 (template labels). Labels of a template are reported on
`template.labels`, but a selector that does not match them on `template.metadata.labels`.
"""

from __future__ import annotations

from typing import Final

from weir.fields.field import Context, Document, Errors, forbidden, invalid, not_supported, required
from weir.fields.meta import validate_annotations, validate_labels, validate_object_meta
from weir.fields.meta import validate_meta as validate_metadata
from weir.validate.core.pod_spec import validate_pod_spec
from weir.validate.ratchet import Options, pod_options
from weir.validate.selectors import selects

MISMATCH: Final = "`selector` does not match template `labels`"


def template_options(template: Document | None, old: Document | None, context: Context) -> Options:
    """Return the options for a template that replaces *old* (None on create)."""
    return pod_options(context.gates, (old or {}).get("spec"), context.raw)


def validate_template(template: Document, at: str, options: Options) -> Errors:
    """Yield what is wrong with a pod template."""
    meta = template.get("metadata") or {}
    if labels := meta.get("labels"):
        yield from validate_labels(labels, f"{at}.labels")
    if annotations := meta.get("annotations"):
        yield from validate_annotations(annotations, f"{at}.annotations")
    spec = template.get("spec") or {}
    yield from validate_pod_spec(spec, f"{at}.spec", options)
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{at}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def validate_selected_template(
    template: Document | None, selector: Document | None, at: str, options: Options, workload: str
) -> Errors:
    """Yield what is wrong with a template whose pods *selector* must find and which must run for ever."""
    if template is None:
        yield required(at)
        return
    yield from validate_selected(template, selector, at)
    yield from validate_template(template, at, options)
    yield from validate_runs_for_ever(template, at, workload)


def validate_selected(template: Document, selector: Document | None, at: str) -> Errors:
    """Yield that a workload would not find its own pods; without a selector it finds none."""
    labels = (template.get("metadata") or {}).get("labels")
    if selector is None or not selects(selector, labels or {}):
        shown = None if labels is None else dict(sorted(labels.items()))
        yield invalid(f"{at}.metadata.labels", shown, MISMATCH)


def validate_runs_for_ever(template: Document, at: str, workload: str) -> Errors:
    """Yield what a controller that keeps pods running cannot take in their template."""
    spec = template.get("spec") or {}
    policy = spec.get("restartPolicy")
    if policy and policy != "Always":
        yield not_supported(f"{at}.spec.restartPolicy", policy, ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {workload} is not Supported"
        yield forbidden(f"{at}.spec.activeDeadlineSeconds", detail)


def validate_pod_template(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a PodTemplate object."""
    template, before = new.get("template") or {}, None if old is None else old.get("template") or {}
    if old is None:
        yield from validate_object_meta(new.get("metadata") or {}, context)
    else:
        yield from validate_metadata(new, old, context)
    yield from validate_template(template, "template", template_options(template, before, context))
