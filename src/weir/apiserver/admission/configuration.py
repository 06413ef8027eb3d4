"""Reads `--admission-control-config-file`.

An AdmissionConfiguration names plugins, each with inline configuration or a `path` relative to the file. Only
EventRateLimit's is supported; any other is rejected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from weir.apiserver.admission.chain import PluginError
from weir.apiserver.admission.event_rate_limit import CACHE_SIZE, SERVER, TYPES, Limit
from weir.objects.manifest import ManifestError, read_document
from weir.values.quoting import quote

API_VERSIONS: Final = ("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1")
EVENT_LIMITS: Final = "eventratelimit.admission.k8s.io/v1alpha1"
PLUGIN: Final = "EventRateLimit"


def read_event_limits(path: Path) -> tuple[Limit, ...]:
    """Return the limits of EventRateLimit in the file at *path*. Raises PluginError."""
    document = _read(path)
    if document.get("apiVersion") not in API_VERSIONS or document.get("kind") != "AdmissionConfiguration":
        raise PluginError(f"{path}: expected kind AdmissionConfiguration of {API_VERSIONS[0]}")
    plugins = document.get("plugins")
    if not isinstance(plugins, list):
        raise PluginError(f"{path}: plugins: expected a list")
    limits: tuple[Limit, ...] = ()
    for i, plugin in enumerate(plugins):
        name = plugin.get("name") if isinstance(plugin, dict) else None
        if name != PLUGIN:
            known = f"weir takes a configuration of {PLUGIN} only"
            raise PluginError(f"{path}: plugins[{i}]: {known}, not of {quote(str(name))}")
        if plugin.get("configuration") is not None:
            where, found = f"{path}: plugins[{i}].configuration", plugin["configuration"]
        else:
            own = path.parent / str(plugin.get("path") or "")
            where, found = str(own), _read(own)
        limits = _limits(found, where)
    return limits


def _read(path: Path) -> dict[str, Any]:
    try:
        found = read_document(path.read_bytes(), str(path))
    except OSError as error:
        raise PluginError(f"cannot read the admission configuration {path}: {error.strerror}") from None
    except ManifestError as error:
        raise PluginError(f"{path} is not YAML: {error.problem} at line {error.place.line}") from None
    if not isinstance(found, dict):
        raise PluginError(f"{path}: expected a mapping")
    return found


def _limits(document: Any, where: str) -> tuple[Limit, ...]:
    if not isinstance(document, dict) or document.get("kind") != "Configuration":
        raise PluginError(f"{where}: expected kind Configuration of {EVENT_LIMITS}")
    if document.get("apiVersion") != EVENT_LIMITS:
        raise PluginError(f"{where}: expected apiVersion {EVENT_LIMITS}")
    listed = document.get("limits")
    if not isinstance(listed, list) or not listed:
        raise PluginError(f"{where}: limits: Invalid value: null: must not be empty")
    return tuple(_limit(each, f"{where}: limits[{i}]") for i, each in enumerate(listed))


def _limit(found: Any, where: str) -> Limit:
    if not isinstance(found, dict):
        raise PluginError(f"{where}: expected a mapping")
    unknown = sorted(found.keys() - {"type", "qps", "burst", "cacheSize"}, key=str)
    if unknown:
        raise PluginError(f"{where}: unknown field {quote(str(unknown[0]))}")
    kind = found.get("type") or ""
    if kind not in TYPES:
        supported = ", ".join(map(quote, TYPES))
        raise PluginError(
            f"{where}.type: Unsupported value: {quote(str(kind))}: supported values: {supported}"
        )
    numbers = {}
    for name in ("burst", "qps", "cacheSize"):
        number = found.get(name) or 0
        if isinstance(number, bool) or not isinstance(number, int) or abs(number) >= 2**31:
            raise PluginError(f"{where}.{name}: expected an integer")
        if name != "cacheSize" and number <= 0:
            raise PluginError(f"{where}.{name}: Invalid value: {number}: must be positive")
        if name == "cacheSize" and number < 0 and kind != SERVER:
            raise PluginError(f"{where}.cacheSize: Invalid value: {number}: must not be negative")
        numbers[name] = number
    return Limit(kind, numbers["qps"], numbers["burst"], max(numbers["cacheSize"], 0) or CACHE_SIZE)
