"""Validation of security contexts, `spec.os`, `spec.hostUsers` and Windows options.

Spec: upstream's structural rules: ranges of ids, profiles, and settings that contradict each other. A pod that names
its OS may not use settings of the other one; a pod with its own user namespace may not share host namespaces. Pod
security standards are not checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weir.fields import field
from weir.fields.field import Document, Errors
from weir.validate.gonames import go_struct
from weir.values.names import byte_length

NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
NOT_ON_LINUX: Final = "windows options cannot be set for a linux pod"
OWN_USERS: Final = "when `hostUsers` is false"
#: Fields of the pod's security context, of the spec, and of a container's security context, in the server's order.
_POD: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser",
    "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy",
)  # fmt: skip
_SPEC: Final = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_CONTAINER: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip


def all_containers(spec: Document, at: str) -> Iterator[tuple[Document, str]]:
    """Give every container of a pod with its path, in the order the server visits them."""
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(name) or ()):
            yield container, f"{at}.{name}[{i}]"


def validate_os(spec: Document, at: str) -> Errors:
    """Yield what is wrong with the system a pod names, or with the rest of the pod because of it."""
    name = spec["os"].get("name") or ""
    if not name:
        yield field.required(f"{at}.os.name")
    elif name not in ("linux", "windows"):
        yield field.not_supported(f"{at}.os", name, ("linux", "windows"))
    elif name == "linux":
        yield from _linux(spec, at)
    else:
        yield from _windows(spec, at)


def _linux(spec: Document, at: str) -> Errors:
    if (spec.get("securityContext") or {}).get("windowsOptions") is not None:
        yield field.forbidden(f"{at}.securityContext.windowsOptions", NOT_ON_LINUX)
    for container, where in all_containers(spec, at):
        if (container.get("securityContext") or {}).get("windowsOptions") is not None:
            yield field.forbidden(f"{where}.securityContext.windowsOptions", NOT_ON_LINUX)


def _windows(spec: Document, at: str) -> Errors:
    security = spec.get("securityContext") or {}
    for name in _POD:
        if security.get(name) is not None and (name != "sysctls" or security[name]):
            yield field.forbidden(f"{at}.securityContext.{name}", NOT_ON_WINDOWS)
    for name in _SPEC:
        if spec.get(name) is not None and (name not in ("hostPID", "hostIPC") or spec[name]):
            yield field.forbidden(f"{at}.{name}", NOT_ON_WINDOWS)
    for container, where in all_containers(spec, at):
        inner = container.get("securityContext") or {}
        for name in _CONTAINER:
            if inner.get(name) is not None:
                yield field.forbidden(f"{where}.securityContext.{name}", NOT_ON_WINDOWS)


def validate_host_users(spec: Document, at: str) -> Errors:
    """Yield what a pod with users of its own may not share with the host."""
    if spec.get("hostUsers") is not False:
        return
    for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            yield field.forbidden(f"{at}.{shown}", OWN_USERS)
    for container, where in all_containers(spec, at):
        if container.get("volumeDevices"):
            yield field.forbidden(f"{where}.volumeDevices", OWN_USERS)


def validate_windows_options(options: Document, at: str) -> Errors:
    """Yield errors in the Windows options of a security context."""
    if (credentials := options.get("gmsaCredentialSpec")) == "":
        yield field.invalid(
            f"{at}.gmsaCredentialSpec", credentials, "gmsaCredentialSpec cannot be an empty string"
        )
    user = options.get("runAsUserName")
    if user is None:
        return
    where = f"{at}.runAsUserName"
    if not user:
        yield field.invalid(where, user, "runAsUserName cannot be an empty string")
    elif any(ord(char) < 32 or ord(char) == 127 for char in user):
        yield field.invalid(where, user, "runAsUserName cannot contain control characters")
    elif user.count("\\") > 1:
        yield field.invalid(where, user, "runAsUserName cannot contain more than one backslash")
    elif user.endswith("\\"):
        yield field.invalid(where, user, "runAsUserName's User cannot be empty")


def validate_host_process(spec: Document, at: str) -> Errors:
    """Yield what is wrong with containers that run on the Windows host itself."""

    def asked(security: Document | None) -> bool | None:
        return ((security or {}).get("windowsOptions") or {}).get("hostProcess")

    whole, count, hosted = asked(spec.get("securityContext")), 0, 0
    for container, where in all_containers(spec, at):
        count += 1
        own = asked(container.get("securityContext"))
        if whole is not None and own is not None and whole != own:
            detail = (
                f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            )
            yield field.invalid(f"{where}.securityContext.windowsOptions.hostProcess", own, detail)
        hosted += bool(own if own is not None else whole)
    if not hosted:
        return
    if hosted != count:
        detail = (
            "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        )
        yield field.invalid(at, "", detail)
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield field.invalid(f"{at}.hostNetwork", False, detail)


_ID_MAX: Final = 2**31 - 1
ID_RANGE: Final = f"must be between 0 and {_ID_MAX}, inclusive"
_SYSCTL_PART: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = f"({_SYSCTL_PART}[\\./])*{_SYSCTL_PART}"
_match_sysctl = re.compile(_SYSCTL).fullmatch
_SYSCTL_MAX: Final = 253
_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_POLICIES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}


def _validate_ids(security: Document, names: tuple[str, ...], at: str) -> Errors:
    for name in names:
        value = security.get(name)
        yield from field.in_range(f"{at}.{name}", value, 0, _ID_MAX, ID_RANGE)


def _validate_profile(profile: Document, at: str, what: str) -> Errors:
    kind, localhost = profile.get("type") or "", profile.get("localhostProfile")
    yield from field.required_one_of(
        f"{at}.type", kind, _PROFILE_TYPES, f"type is required when {at.rpartition('.')[2]} is set"
    )
    if kind == "Localhost":
        yield from field.present(
            f"{at}.localhostProfile", localhost, f"must be set when {what} type is Localhost"
        )
    elif localhost is not None and (what == "seccomp" or kind in _PROFILE_TYPES):
        shown = go_struct({"seccomp": "SeccompProfile", "AppArmor": "AppArmorProfile"}[what], profile)
        yield field.invalid(f"{at}.localhostProfile", shown, f"can only be set when {what} type is Localhost")


def validate_security_context(security: Document, at: str) -> Errors:
    """Yield what is wrong with the security context of a container."""
    yield from _validate_ids(security, ("runAsUser", "runAsGroup"), at)
    proc_mount = security.get("procMount")
    if proc_mount not in (None, "Default", "Unmasked"):
        yield field.not_supported(f"{at}.procMount", proc_mount, ("Default", "Unmasked"))
    if (profile := security.get("seccompProfile")) is not None:
        yield from _validate_profile(profile, f"{at}.seccompProfile", "seccomp")
    if security.get("allowPrivilegeEscalation") is False:
        shown = go_struct("SecurityContext", security)
        if security.get("privileged"):
            yield field.invalid(
                at, shown, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            )
        if "CAP_SYS_ADMIN" in ((security.get("capabilities") or {}).get("add") or ()):
            yield field.invalid(
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
            yield field.invalid(f"{where}.supplementalGroups[{i}]", group, ID_RANGE)
    if sysctls := security.get("sysctls"):
        yield from _validate_sysctls(sysctls, f"{where}.sysctls")
    name = "fsGroupChangePolicy"
    yield from field.one_of(f"{where}.{name}", security.get(name), _POLICIES[name])
    if (profile := security.get("seccompProfile")) is not None:
        yield from _validate_profile(profile, f"{where}.seccompProfile", "seccomp")
    if windows := security.get("windowsOptions"):
        yield from validate_windows_options(windows, f"{where}.windowsOptions")
    if (profile := security.get("appArmorProfile")) is not None:
        yield from _validate_profile(profile, f"{where}.appArmorProfile", "AppArmor")
    for name in ("supplementalGroupsPolicy", "seLinuxChangePolicy"):
        yield from field.one_of(f"{where}.{name}", security.get(name), _POLICIES[name])


def _validate_sysctls(sysctls: list[Document], at: str) -> Errors:
    seen: set[str] = set()
    for i, sysctl in enumerate(sysctls):
        name = sysctl.get("name") or ""
        if not name:
            yield field.required(f"{at}[{i}].name")
        elif byte_length(name) > _SYSCTL_MAX or not _match_sysctl(name):
            detail = f"must have at most {_SYSCTL_MAX} characters and match regex ^{_SYSCTL}$"
            yield field.invalid(f"{at}[{i}].name", name, detail)
        elif name in seen:
            yield field.duplicate(f"{at}[{i}].name", name)
        seen.add(name)
