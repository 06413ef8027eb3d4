"""The installation as a Helm chart: the same objects, with three places left open.

Namespace, image and number of replicas are written as Helm's expressions; everything else is what `weir install`
prints, so there is one source. The namespace itself is Helm's to create.
Helm has an order of its own by kinds, in which webhook configurations come last: as they do here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from weir.install.manifests import REPLICAS, Installation, ToYaml, documents, written

_NAMESPACE: Final = "{{ .Release.Namespace }}"
_IMAGE: Final = '{{ required "image is required: --set image=REGISTRY/weir:TAG" .Values.image }}'
#: Stands for the replicas until the text is written: an expression is no number.
_REPLICAS: Final = 1_000_003
_FILES: Final = {
    "ServiceAccount": "rights", "ClusterRole": "rights", "ClusterRoleBinding": "rights", "Role": "rights",
    "RoleBinding": "rights", "Secret": "kept", "ConfigMap": "kept", "Service": "services", "Pod": "sentinel",
    "Deployment": "deployment", "PodDisruptionBudget": "deployment", "NetworkPolicy": "deployment",
    "MutatingWebhookConfiguration": "webhooks", "ValidatingWebhookConfiguration": "webhooks",
}  # fmt: skip


def files(version: str, to_yaml: ToYaml, decided: Installation = Installation()) -> Mapping[str, str]:
    """Return the chart's files by their path inside it; what else somebody has *decided* is written down."""
    open_places = replace(decided, namespace=_NAMESPACE, image=_IMAGE, url="", replicas=_REPLICAS)
    found: dict[str, str] = {
        "Chart.yaml": to_yaml(
            {
                "apiVersion": "v2",
                "name": "weir-operator",
                "description": "Numeric, SemVer and CEL tolerations on any Kubernetes",
                "type": "application",
                "version": version,
                "appVersion": version,
                "kubeVersion": ">=1.30.0-0",
            }
        )
        + "\n",
        "values.yaml": _VALUES,
        "templates/NOTES.txt": _NOTES,
    }
    for document in documents(open_places):
        if document["kind"] == "Namespace":
            continue
        place = f"templates/{_FILES[document['kind']]}.yaml"
        text = written(document, to_yaml).replace(
            f"replicas: {_REPLICAS}", "replicas: {{ .Values.replicas }}"
        )
        found[place] = (f"{found[place]}---\n" if place in found else "") + text + "\n"
    return found


_VALUES: Final = f"""\
# The image of weir, as built from the Containerfile of the project.
image: ""
# How many operators answer; one of them leads.
replicas: {REPLICAS}
"""
_NOTES: Final = """\
weir's operator is being started in the namespace {{ .Release.Namespace }}.

Is all well?   weir check -n {{ .Release.Namespace }}
Before removing it with helm, let weir do it in the safe order:   weir uninstall -n {{ .Release.Namespace }}
"""
