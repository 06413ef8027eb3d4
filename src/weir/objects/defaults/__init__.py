"""Defaulting of objects.

Spec: apiserver.md 5 "Defaulting and admission". One function per Go struct, in one file per group, looked up by the
struct's name; a walk over the schema calls them wherever the struct occurs, parents before children, so a pod
template gets the defaults of a pod except those of Pod itself. Conversions count here too (a Secret's `stringData`, a
node's `podCIDR`). What admission or a strategy sets is not here.
"""

from __future__ import annotations

from weir.objects.defaults.walk import default, settle

__all__ = ["default", "settle"]
