"""Validation of security contexts.

Spec: upstream's structural rules for security contexts: ranges of ids, profiles, and settings that contradict each
other. Pod security standards are not checked here.
"""

from __future__ import annotations

import re
from typing import Final

from weir.validate.core.operating_system import validate_windows_options
from weir.validate.field import Document, Errors, duplicate, invalid, not_supported, required
from weir.validate.gonames import go_struct
from weir.values.names import byte_length

_ID_MAX: Final = 2**31 - 1
ID_RANGE: Final = f"must be between 0 and {_ID_MAX}, inclusive"
_SYSCTL_PART: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = f"({_SYSCTL_PART}[\\./])*{_SYSCTL_PART}"
_match_sysctl = re.compile(_SYSCTL).fullmatch
_SYSCTL_MAX: Final = 253
_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")


def _validate_ids(security: Document, names: tuple[str, ...], at: str) -> Errors:
    for name in names:
        value = security.get(name)
        if value is not None and not 0 <= value <= _ID_MAX:
            yield invalid(f"{at}.{name}", value, ID_RANGE)


def _validate_profile(profile: Document, at: str, what: str) -> Errors:
    kind, localhost = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        yield required(f"{at}.type", f"type is required when {at.rpartition('.')[2]} is set")
    elif kind not in _PROFILE_TYPES:
        yield not_supported(f"{at}.type", kind, _PROFILE_TYPES)
    if kind == "Localhost":
        if not localhost:
            yield required(f"{at}.localhostProfile", f"must be set when {what} type is Localhost")
    elif localhost is not None and (what == "seccomp" or kind in _PROFILE_TYPES):
        shown = go_struct({"seccomp": "SeccompProfile", "AppArmor": "AppArmorProfile"}[what], profile)
        yield invalid(f"{at}.localhostProfile", shown, f"can only be set when {what} type is Localhost")


def validate_security_context(security: Document, at: str) -> Errors:
    """Yield what is wrong with the security context of a container."""
    yield from _validate_ids(security, ("runAsUser", "runAsGroup"), at)
    proc_mount = security.get("procMount")
    if proc_mount not in (None, "Default", "Unmasked"):
        yield not_supported(f"{at}.procMount", proc_mount, ("Default", "Unmasked"))
    if (profile := security.get("seccompProfile")) is not None:
        yield from _validate_profile(profile, f"{at}.seccompProfile", "seccomp")
    if security.get("allowPrivilegeEscalation") is False:
        shown = go_struct("SecurityContext", security)
        if security.get("privileged"):
            yield invalid(
                at, shown, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            )
        if "CAP_SYS_ADMIN" in ((security.get("capabilities") or {}).get("add") or ()):
            yield invalid(
                at,
                shown,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            )
    if windows := security.get("windowsOptions"):
        yield from validate_windows_options(windows, f"{at}.windowsOptions")
    if (profile := security.get("appArmorProfile")) is not None:
        yield from _validate_profile(profile, f"{at}.appArmorProfile", "AppArmor")


def validate_pod_security_context(spec: Document, at: str) -> Errors:
    """Yield what is wrong with the host namespaces and the security context of a pod; *at* is the spec's path."""
    security, where = spec.get("securityContext") or {}, f"{at}.securityContext"
    if not security:
        return
    yield from _validate_ids(security, ("fsGroup", "runAsUser", "runAsGroup"), where)
    for i, group in enumerate(security.get("supplementalGroups") or ()):
        if not 0 <= group <= _ID_MAX:
            yield invalid(f"{where}.supplementalGroups[{i}]", group, ID_RANGE)
    if sysctls := security.get("sysctls"):
        yield from _validate_sysctls(sysctls, f"{where}.sysctls")
    yield from _validate_policy(security, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), where)
    if (profile := security.get("seccompProfile")) is not None:
        yield from _validate_profile(profile, f"{where}.seccompProfile", "seccomp")
    if windows := security.get("windowsOptions"):
        yield from validate_windows_options(windows, f"{where}.windowsOptions")
    if (profile := security.get("appArmorProfile")) is not None:
        yield from _validate_profile(profile, f"{where}.appArmorProfile", "AppArmor")
    yield from _validate_policy(security, "supplementalGroupsPolicy", ("Merge", "Strict"), where)
    yield from _validate_policy(security, "seLinuxChangePolicy", ("MountOption", "Recursive"), where)


def _validate_policy(security: Document, name: str, allowed: tuple[str, ...], at: str) -> Errors:
    value = security.get(name)
    if value is not None and value not in allowed:
        yield not_supported(f"{at}.{name}", value, allowed)


def _validate_sysctls(sysctls: list[Document], at: str) -> Errors:
    seen: set[str] = set()
    for i, sysctl in enumerate(sysctls):
        name = sysctl.get("name") or ""
        if not name:
            yield required(f"{at}[{i}].name")
        elif byte_length(name) > _SYSCTL_MAX or not _match_sysctl(name):
            detail = f"must have at most {_SYSCTL_MAX} characters and match regex ^{_SYSCTL}$"
            yield invalid(f"{at}[{i}].name", name, detail)
        elif name in seen:
            yield duplicate(f"{at}[{i}].name", name)
        seen.add(name)
