"""Validation of `spec.os`, `spec.hostUsers` and Windows options.

Spec: upstream's rules for `spec.os`, `spec.hostUsers` and Windows options. A pod that names its OS may not use
settings of the other one; a pod with its own user namespace may not share host namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weir.validate.field import Document, Errors, forbidden, invalid, not_supported, required

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
        yield required(f"{at}.os.name")
    elif name not in ("linux", "windows"):
        yield not_supported(f"{at}.os", name, ("linux", "windows"))
    elif name == "linux":
        yield from _linux(spec, at)
    else:
        yield from _windows(spec, at)


def _linux(spec: Document, at: str) -> Errors:
    if (spec.get("securityContext") or {}).get("windowsOptions") is not None:
        yield forbidden(f"{at}.securityContext.windowsOptions", NOT_ON_LINUX)
    for container, where in all_containers(spec, at):
        if (container.get("securityContext") or {}).get("windowsOptions") is not None:
            yield forbidden(f"{where}.securityContext.windowsOptions", NOT_ON_LINUX)


def _windows(spec: Document, at: str) -> Errors:
    security = spec.get("securityContext") or {}
    for name in _POD:
        if security.get(name) is not None and (name != "sysctls" or security[name]):
            yield forbidden(f"{at}.securityContext.{name}", NOT_ON_WINDOWS)
    for name in _SPEC:
        if spec.get(name) is not None and (name not in ("hostPID", "hostIPC") or spec[name]):
            yield forbidden(f"{at}.{name}", NOT_ON_WINDOWS)
    for container, where in all_containers(spec, at):
        inner = container.get("securityContext") or {}
        for name in _CONTAINER:
            if inner.get(name) is not None:
                yield forbidden(f"{where}.securityContext.{name}", NOT_ON_WINDOWS)


def validate_host_users(spec: Document, at: str) -> Errors:
    """Yield what a pod with users of its own may not share with the host."""
    if spec.get("hostUsers") is not False:
        return
    for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            yield forbidden(f"{at}.{shown}", OWN_USERS)
    for container, where in all_containers(spec, at):
        if container.get("volumeDevices"):
            yield forbidden(f"{where}.volumeDevices", OWN_USERS)


def validate_windows_options(options: Document, at: str) -> Errors:
    """Yield errors in the Windows options of a security context."""
    if (credentials := options.get("gmsaCredentialSpec")) == "":
        yield invalid(f"{at}.gmsaCredentialSpec", credentials, "gmsaCredentialSpec cannot be an empty string")
    user = options.get("runAsUserName")
    if user is None:
        return
    where = f"{at}.runAsUserName"
    if not user:
        yield invalid(where, user, "runAsUserName cannot be an empty string")
    elif any(ord(char) < 32 or ord(char) == 127 for char in user):
        yield invalid(where, user, "runAsUserName cannot contain control characters")
    elif user.count("\\") > 1:
        yield invalid(where, user, "runAsUserName cannot contain more than one backslash")
    elif user.endswith("\\"):
        yield invalid(where, user, "runAsUserName's User cannot be empty")


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
            yield invalid(f"{where}.securityContext.windowsOptions.hostProcess", own, detail)
        hosted += bool(own if own is not None else whole)
    if not hosted:
        return
    if hosted != count:
        detail = (
            "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        )
        yield invalid(at, "", detail)
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(f"{at}.hostNetwork", False, detail)
