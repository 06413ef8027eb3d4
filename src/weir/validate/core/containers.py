"""Validation of containers, regular, init and ephemeral, and of their probes and lifecycle handlers.

Spec: apiserver.md 13 (the rows of `spec.containers`), core.md 2.13 "Order of spec checks". The three lists share one
set of rules; each adds its own. Absent numbers of a probe mean their defaults; successThreshold of a liveness or
startup probe must be 1. Resources, environment and volumes have their own modules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from weir.fields.field import (
    Document,
    Errors,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_found,
    not_supported,
    one_of,
    required,
    required_one_of,
    required_well_formed,
    unique,
)
from weir.validate.core.environment import validate_env, validate_env_from
from weir.validate.core.resources import validate_container_resources
from weir.validate.core.security_context import validate_security_context
from weir.validate.core.volumes import validate_local_path
from weir.validate.numbers import NOT_NEGATIVE, PORT_RANGE, validate_port_reference
from weir.values.names import check_dns1123_label, check_http_header, check_port_name

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")


def validate_probe(probe: Document, at: str, *, kind: str, grace_seconds: int | None) -> Errors:
    """Yield what is wrong with a probe; *kind* is `liveness`, `readiness` or `startup`."""
    yield from _validate_handler(probe, at, _HANDLERS)
    for name in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        if (probe.get(name) or 0) < 0:
            yield invalid(f"{at}.{name}", probe[name], NOT_NEGATIVE)
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        yield invalid(f"{at}.terminationGracePeriodSeconds", own_grace, "must be greater than 0")
    if kind == "readiness":
        if own_grace is not None:
            yield invalid(
                f"{at}.terminationGracePeriodSeconds", own_grace, "must not be set for readinessProbes"
            )
    elif probe.get("successThreshold") not in (None, 0, 1):
        yield invalid(f"{at}.successThreshold", probe["successThreshold"], "must be 1")


def validate_lifecycle(lifecycle: Document, at: str, grace_seconds: int | None) -> Errors:
    """Yield what is wrong with the hooks of a container."""
    for name in ("postStart", "preStop"):
        if (handler := lifecycle.get(name)) is not None:
            yield from _validate_handler(
                handler, f"{at}.{name}", ("exec", "httpGet", "tcpSocket", "sleep"), grace_seconds
            )


def _validate_handler(
    handler: Document, at: str, known: tuple[str, ...], grace_seconds: int | None = None
) -> Errors:
    given = [name for name in known if handler.get(name) is not None]
    for i, name in enumerate(given):
        if i:
            yield forbidden(f"{at}.{name}", "may not specify more than 1 handler type")
            continue
        action, where = handler[name], f"{at}.{name}"
        if name == "exec":
            if not action.get("command"):
                yield required(f"{where}.command")
        elif name == "httpGet":
            yield from _validate_http_get(action, where)
        elif name == "tcpSocket":
            yield from validate_port_reference(action.get("port"), f"{where}.port")
        elif name == "sleep":
            seconds = action.get("seconds") or 0
            if grace_seconds is not None and not 0 <= seconds <= grace_seconds:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
                yield invalid(where, seconds, detail)
        elif name == "grpc":
            port = action.get("port") or 0
            if not 1 <= port <= 65535:
                yield invalid(f"{where}.port", port, PORT_RANGE)
    if not given:
        yield required(at, "must specify a handler type")


def _validate_http_get(action: Document, at: str) -> Errors:
    if "path" in action and not action["path"]:
        yield required(f"{at}.path")
    yield from validate_port_reference(action.get("port"), f"{at}.port")
    if action.get("scheme") not in (None, "", "HTTP", "HTTPS"):
        yield not_supported(f"{at}.scheme", action["scheme"], ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        yield from each_invalid(f"{at}.httpHeaders", name, check_http_header(name))


_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PROBES: Final = (("livenessProbe", "liveness"), ("readinessProbe", "readiness"), ("startupProbe", "startup"))
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RESTART_ACTIONS: Final = ("Restart", "RestartAllContainers")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")

_FINE_PULL_POLICIES: Final = frozenset({None, "", *_PULL_POLICIES})
_FINE_MESSAGE_POLICIES: Final = frozenset({None, "", *_MESSAGE_POLICIES})


@dataclass(slots=True)
class PodContext:
    """Volumes, claims and grace period that a pod's containers may refer to."""

    volumes: dict[str, Document] = field(default_factory=dict)
    claim_names: Collection[str] = ()
    grace_seconds: int | None = 30


def validate_containers(containers: list[Document], at: str, pod: PodContext) -> Errors:
    """Yield what is wrong with the regular containers; there must be one."""
    if not containers:
        yield required(at)
        return
    names: set[str] = set()
    for i, container in enumerate(containers):
        where = f"{at}[{i}]"
        yield from _validate_container(container, where, pod)
        name = container.get("name") or ""
        yield from unique(name, names, f"{where}.name")
        yield from _validate_hooks(container, where, pod)
        if container.get("restartPolicy") is not None:
            yield from _validate_restart_policy(container["restartPolicy"], f"{where}.restartPolicy")
        if rules := container.get("restartPolicyRules"):
            yield from _validate_restart_rules(container, rules, where)
    yield from _validate_host_ports(containers, at)


def validate_init_containers(
    containers: list[Document], regular: Iterable[Document], at: str, pod: PodContext
) -> Errors:
    """Yield what is wrong with the init containers; names are shared with the regular ones."""
    names = {container.get("name") or "" for container in regular}
    for i, container in enumerate(containers):
        where = f"{at}[{i}]"
        restartable = container.get("restartPolicy") == "Always"
        yield from _validate_container(container, where, pod)
        name = container.get("name")
        if name and name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name or "")
        if container.get("restartPolicy") is not None:
            yield from _validate_restart_policy(container["restartPolicy"], f"{where}.restartPolicy")
        if restartable:
            yield from _validate_hooks(container, where, pod)
        else:
            for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                found = container.get(key)
                if found is not None and (key != "lifecycle" or found.keys() != {"stopSignal"}):
                    yield forbidden(
                        f"{where}.{key}", "may not be set for init containers without restartPolicy=Always"
                    )
        # Init containers run one after another: a host port only clashes within one of them.
        yield from _validate_host_ports([container], at, first=i)


#: What an ephemeral container may set; it joins a running pod and cannot claim anything of it.
_EPHEMERAL_FIELDS: Final = frozenset(
    {
        "name", "image", "command", "args", "workingDir", "env", "envFrom", "volumeMounts", "volumeDevices",
        "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin",
        "stdinOnce", "tty", "targetContainerName", "resources",
    }
)  # fmt: skip


def validate_ephemeral_containers(
    containers: list[Document], others: list[Document], at: str, pod: PodContext
) -> Errors:
    """Yield what is wrong with the ephemeral containers; *others* are all containers of the spec."""
    names = {container.get("name") or "" for container in others}
    targets = set(names)
    for i, container in enumerate(containers):
        where = f"{at}[{i}]"
        yield from _validate_container(container, where, pod)
        name = container.get("name") or ""
        yield from unique(name, names, f"{where}.name")
        target = container.get("targetContainerName")
        if target and target not in targets:
            yield not_found(f"{where}.targetContainerName", target)
        for key in sorted(container):
            if key not in _EPHEMERAL_FIELDS and container[key]:
                yield forbidden(f"{where}.{key}", "cannot be set for an Ephemeral Container")
        if container.get("resources"):
            yield forbidden(f"{where}.resources", "cannot be set for an Ephemeral Container")
        for m, mount in enumerate(container.get("volumeMounts") or ()):
            if mount.get("subPath"):
                yield forbidden(
                    f"{where}.volumeMounts[{m}].subPath", "cannot be set for an Ephemeral Container"
                )


def _validate_container(container: Document, at: str, pod: PodContext) -> Errors:
    """Yield what is wrong with one container, whatever list it is in."""
    get = container.get
    yield from required_well_formed(f"{at}.name", get("name"), check_dns1123_label)
    if not get("image"):
        yield required(f"{at}.image")
    if get("terminationMessagePolicy") not in _FINE_MESSAGE_POLICIES:
        yield not_supported(
            f"{at}.terminationMessagePolicy", container["terminationMessagePolicy"], _MESSAGE_POLICIES
        )
    if ports := get("ports"):
        yield from _validate_ports(ports, f"{at}.ports")
    if variables := get("env"):
        yield from validate_env(variables, f"{at}.env")
    if sources := get("envFrom"):
        yield from validate_env_from(sources, f"{at}.envFrom")
    if mounts := get("volumeMounts"):
        yield from _validate_mounts(mounts, container, f"{at}.volumeMounts", pod)
    if devices := get("volumeDevices"):
        yield from _validate_devices(devices, get("volumeMounts") or (), f"{at}.volumeDevices", pod)
    if get("imagePullPolicy") not in _FINE_PULL_POLICIES:
        yield not_supported(f"{at}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES)
    if resources := get("resources"):
        yield from validate_container_resources(resources, pod.claim_names, f"{at}.resources")
    if policies := get("resizePolicy"):
        yield from _validate_resize_policies(policies, f"{at}.resizePolicy")
    if security := get("securityContext"):
        yield from validate_security_context(security, f"{at}.securityContext")


def _validate_hooks(container: Document, at: str, pod: PodContext) -> Errors:
    get = container.get
    if lifecycle := get("lifecycle"):
        yield from validate_lifecycle(lifecycle, f"{at}.lifecycle", pod.grace_seconds)
    for key, kind in _PROBES:
        if (probe := get(key)) is not None:
            yield from validate_probe(probe, f"{at}.{key}", kind=kind, grace_seconds=pod.grace_seconds)


def _validate_restart_policy(policy: str, at: str) -> Errors:
    if policy not in ("Always", "Never", "OnFailure"):
        yield not_supported(at, policy, ("Always", "Never", "OnFailure"))


def _validate_restart_rules(container: Document, rules: list[Document], at: str) -> Errors:
    if container.get("restartPolicy") is None:
        yield required(f"{at}.restartPolicy", "must specify restartPolicy when restart rules are used")
    for i, rule in enumerate(rules):
        where, action, codes = (
            f"{at}.restartPolicyRules[{i}]",
            rule.get("action") or "",
            rule.get("exitCodes"),
        )
        if action not in _RESTART_ACTIONS:
            yield not_supported(f"{where}.action", action, _RESTART_ACTIONS)
        if codes is None:
            yield required(f"{where}.exitCodes", "must be specified")
        elif (codes.get("operator") or "") not in ("In", "NotIn"):
            yield not_supported(f"{where}.exitCodes.operator", codes.get("operator") or "", ("In", "NotIn"))


def _validate_resize_policies(policies: list[Document], at: str) -> Errors:
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        resource = policy.get("resourceName") or ""
        yield from unique(resource, seen, f"{at}[{i}]")
        yield from required_one_of(at, resource, ("cpu", "memory"))
        yield from required_one_of(at, policy.get("restartPolicy"), ("NotRequired", "RestartContainer"))


def _validate_ports(ports: list[Document], at: str) -> Errors:
    names: set[str] = set()
    for i, port in enumerate(ports):
        if name := port.get("name"):
            if messages := check_port_name(name):
                yield from each_invalid(f"{at}[{i}].name", name, messages)
            elif name in names:
                yield duplicate(f"{at}[{i}].name", name)
            else:
                names.add(name)
        container_port, host_port = port.get("containerPort") or 0, port.get("hostPort") or 0
        if not container_port:
            yield required(f"{at}[{i}].containerPort")
        elif not 1 <= container_port <= 65535:
            yield invalid(f"{at}[{i}].containerPort", container_port, PORT_RANGE)
        if host_port and not 1 <= host_port <= 65535:
            yield invalid(f"{at}[{i}].hostPort", host_port, PORT_RANGE)
        yield from one_of(f"{at}[{i}].protocol", port.get("protocol") or "TCP", _PROTOCOLS)


def _validate_host_ports(containers: list[Document], at: str, first: int = 0) -> Errors:
    taken: set[str] = set()
    for c, container in enumerate(containers, first):
        for p, port in enumerate(container.get("ports") or ()):
            if not (number := port.get("hostPort")):
                continue
            text = f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or ''}/{number}"
            yield from unique(text, taken, f"{at}[{c}].ports[{p}].hostPort")


def _validate_mounts(mounts: list[Document], container: Document, at: str, pod: PodContext) -> Errors:
    paths: set[str] = set()
    devices = container.get("volumeDevices") or ()
    privileged = (container.get("securityContext") or {}).get("privileged")
    device_names = {device.get("name") for device in devices}
    device_paths = {device.get("devicePath") for device in devices}
    for i, mount in enumerate(mounts):
        name, path = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{at}[{i}].name")
        if name not in pod.volumes:
            yield not_found(f"{at}[{i}].name", name)
        if not path:
            yield required(f"{at}[{i}].mountPath")
        if path in paths:
            yield invalid(f"{at}[{i}].mountPath", path, "must be unique")
        paths.add(path)
        if name in device_names:
            yield invalid(f"{at}[{i}].name", name, "must not already exist in volumeDevices")
        if path in device_paths:
            yield invalid(f"{at}[{i}].mountPath", path, "must not already exist as a path in volumeDevices")
        # Upstream forgets the subscript from here on.
        yield from _validate_sub_paths(mount, at, f"{at}[{i}]")
        propagation = mount.get("mountPropagation")
        yield from one_of(f"{at}.mountPropagation", propagation, _PROPAGATIONS)
        if propagation == "Bidirectional" and not privileged:
            detail = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden(f"{at}.mountPropagation", detail)
        yield from _validate_recursive(mount, f"{at}.recursiveReadOnly")


def _validate_recursive(mount: Document, at: str) -> Errors:
    recursive = mount.get("recursiveReadOnly")
    if recursive in (None, "Disabled"):
        return
    if recursive not in _RECURSIVE:
        yield not_supported(at, recursive, _RECURSIVE)
        return
    if not mount.get("readOnly"):
        yield forbidden(at, "may only be specified when readOnly is true")
    if mount.get("mountPropagation") not in (None, "None"):
        yield forbidden(at, "may only be specified when mountPropagation is None or not specified")


def _validate_sub_paths(mount: Document, at: str, place: str) -> Errors:
    sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        yield from validate_local_path(sub_path, f"{at}.subPath")
    if expression:
        if sub_path:
            yield invalid(
                f"{place}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"
            )
        yield from validate_local_path(expression, f"{at}.subPathExpr")


def _validate_devices(
    devices: list[Document], mounts: Iterable[Document], at: str, pod: PodContext
) -> Errors:
    names: set[str] = set()
    paths: set[str] = set()
    mount_names: set[Any] = {mount.get("name") for mount in mounts}
    mount_paths: set[Any] = {mount.get("mountPath") for mount in mounts}
    for i, device in enumerate(devices):
        name, path = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            yield required(f"{at}[{i}].name")
        if name in names:
            yield invalid(f"{at}[{i}].name", name, "must be unique")
        source = pod.volumes.get(name)
        if source is None:
            yield not_found(f"{at}[{i}].name", name)
        elif source.get("persistentVolumeClaim") is None and source.get("ephemeral") is None:
            yield invalid(
                f"{at}[{i}].name",
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            )
        if not path:
            yield required(f"{at}[{i}].devicePath")
        elif path in paths:
            yield invalid(f"{at}[{i}].devicePath", path, "must be unique")
        if path and ".." in path.split("/"):
            yield invalid(f"{at}[{i}].devicePath", path, "can not contain backsteps ('..')")
        names.add(name)
        paths.add(path)
        if name in mount_names:
            yield invalid(f"{at}[{i}].name", name, "must not already exist in volumeMounts")
        if path in mount_paths:
            yield invalid(f"{at}[{i}].devicePath", path, "must not already exist as a path in volumeMounts")
