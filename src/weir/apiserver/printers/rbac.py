"""Table cells of RoleBinding and ClusterRoleBinding."""

from __future__ import annotations

from weir.apiserver.printers.cells import Cells, Document, age, name_of


def role_binding(binding: Document, now: float) -> Cells:
    role, subjects = binding.get("roleRef") or {}, binding.get("subjects") or ()

    def names(kind: str) -> str:
        return ", ".join(
            f"{subject.get('namespace')}/{subject.get('name')}"
            if kind == "ServiceAccount"
            else str(subject.get("name"))
            for subject in subjects
            if subject.get("kind") == kind
        )

    shown = f"{role.get('kind', '')}/{role.get('name', '')}"
    return [
        name_of(binding),
        shown,
        age(binding, now),
        names("User"),
        names("Group"),
        names("ServiceAccount"),
    ]
