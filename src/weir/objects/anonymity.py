"""Objects under other names, consistently, so that answers about them stay the same.

Names of objects and of parts of pods, namespaces, label values, images, uids and addresses are words; each becomes
another word everywhere it stands. New words sort as the old ones do, because names break ties. Numbers and versions
stay, and so does all that operators compare: keys and values of taints, keys of labels, expressions, attributes of
devices; and names of classes and drivers, which stand in names of resources.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from weir.values.integer import IntegerError, parse_int64
from weir.values.semver import find_tolerant

Document = dict[str, Any]
_Word = Callable[[str], str]

#: Words that mean the same in every cluster.
WELL_KNOWN: Final = frozenset(
    {
        "",
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "kubernetes",
        "true",
        "false",
        "True",
        "False",
    }
    | {"system-node-critical", "system-cluster-critical", "None", "metadata.name"}
)
#: Fields that hold a name, wherever they stand.
_NAMES: Final = frozenset(
    {
        "name",
        "namespace",
        "generateName",
        "uid",
        "nodeName",
        "nominatedNodeName",
        "claimName",
        "volumeName",
        "serviceAccountName",
        "serviceAccount",
        "resourceClaimName",
        "resourceClaimTemplateName",
        "resourceClaim",
        "hostname",
        "subdomain",
        "secretName",
        "podName",
        "persistentVolumeName",
        "containerName",
        "container",
        "image",
        "imageID",
        "device",
        "pool",
        "nodeID",
        "volumeHandle",
        "serviceName",
        "host",
        "counterSet",
        "mountPath",
        "subPath",
        "subPathExpr",
        "workingDir",
        "devicePath",
        "terminationMessagePath",
    }
)
#: Kinds whose names stay.
_CLASSES: Final = frozenset({"StorageClass", "DeviceClass", "PriorityClass", "RuntimeClass", "CSIDriver"})
#: Maps of labels, and entries that hold values of a label.
_LABELS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "selector"})
#: Whose `name` is no name: requests of claims, metrics of autoscalers, drivers of nodes.
_NO_NAMES: Final = frozenset({"requests", "firstAvailable", "resource", "metric", "drivers"})
#: Label keys whose values mean something by themselves.
_TELLING_KEYS: Final = re.compile(
    r"(?:.*\.)?(?:kubernetes\.io/(?:os|arch)|weir\.dev/.*)|pod-template-hash|pod-template-generation"
)
#: Say who and where a machine is, and decide nothing.
_DROPPED: Final = frozenset(
    {
        "providerID",
        "podCIDR",
        "podCIDRs",
        "addresses",
        "podIP",
        "podIPs",
        "hostIPs",
        "machineID",
        "systemUUID",
        "bootID",
        "externalIPs",
        "externalName",
        "loadBalancer",
        "loadBalancerIP",
        "loadBalancerSourceRanges",
        "containerID",
        "externalID",
        "hostAliases",
        "dnsConfig",
        "volumesInUse",
        "volumesAttached",
        "disruptedPods",
    }
)
_DROPPED_IN_STATUS: Final = frozenset({"hostIP"})
_ADDRESSES: Final = frozenset({"clusterIP", "hostIP", "ip"})
#: Sources of volumes whose fields have a rule here; of others every text is a word.
_KNOWN_SOURCES: Final = frozenset(
    {"persistentVolumeClaim", "ephemeral", "emptyDir", "configMap", "secret", "downwardAPI", "name"}
)
_SOURCE_WORDS_KEPT: Final = frozenset({"fsType", "type", "driver", "kind", "apiVersion"})
_VOLUME_FIELDS: Final = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)
_QUOTED: Final = re.compile(r'"([^"\s]+)"')
_MESSAGE_WORDS: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def anonymous(documents: Iterable[Document]) -> tuple[list[Document], dict[str, str]]:
    """Return *documents* under other names, and the new word for each; Events, which quote people, are left out."""
    held = [document for document in documents if document.get("kind") != "Event"]
    words: set[str] = set()

    def collect(word: str) -> str:
        words.add(word)
        return word

    for document in held:
        _Renaming(collect).document(document)
    table = _table(words, held)
    renaming = _Renaming(table.__getitem__, _message(table))
    return [renaming.document(document) for document in held], table


def _table(words: set[str], documents: list[Document]) -> dict[str, str]:
    """Return the new word for each; pods and claims of StatefulSets are named after them."""
    ordered = sorted(words - WELL_KNOWN)
    digits = len(str(len(ordered)))
    table = {word: word for word in words & WELL_KNOWN}
    table.update({word: f"name-{number:0{digits}}" for number, word in enumerate(ordered, 1)})
    sets = [each for each in documents if each.get("kind") == "StatefulSet"]
    for each in sets:
        name = each["metadata"]["name"]
        templates = (each.get("spec") or {}).get("volumeClaimTemplates") or ()
        claims = [part["metadata"]["name"] for part in templates]
        numbered = (
            re.compile(rf"(?:({'|'.join(map(re.escape, claims))})-)?{re.escape(name)}-(\d+)")
            if claims
            else (re.compile(rf"(){re.escape(name)}-(\d+)"))
        )
        for word in ordered:
            if found := numbered.fullmatch(word):
                prefix = f"{table[found[1]]}-" if found[1] else ""
                table[word] = f"{prefix}{table[name]}-{found[2]}"
    return table


def _message(table: dict[str, str]) -> Callable[[str], str]:
    """Return what makes a message of a component anonymous: names that are known, and whatever it quotes."""

    def known(found: re.Match[str]) -> str:
        word = found[0]
        return table.get(word, word)

    def rename(text: str) -> str:
        quoted = _QUOTED.sub(lambda found: f'"{table.get(found[1], "…")}"', text)
        return _MESSAGE_WORDS.sub(known, quoted)

    return rename


class _Renaming:
    """One walk through objects, with what becomes of a word."""

    def __init__(self, word: _Word, message: _Word = lambda text: text) -> None:
        self._rename, self._message = word, message
        self._kind: Any = None

    def document(self, document: Document) -> Document:
        """Return an object with each word renamed."""
        self._kind = document.get("kind")
        changed: Document = self._walk(document, ())
        return changed

    def _word(self, text: Any) -> Any:
        return self._rename(text) if isinstance(text, str) and not _compared(text) else text

    def _walk(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self._walk(each, path) for each in value]
        if not isinstance(value, dict):
            return value
        if {"key", "operator"} <= value.keys() and isinstance(value.get("values"), list):
            return {**value, "values": [self._label(value["key"], each) for each in value["values"]]}
        changed = {}
        for name, part in value.items():
            if name not in _DROPPED and not (name in _DROPPED_IN_STATUS and "status" in path):
                changed[name] = self._field(name, part, path, value)
        return changed

    def _field(self, name: str, part: Any, path: tuple[str, ...], parent: Document) -> Any:
        below = (*path, name)
        match part:
            case dict() if name in _LABELS and all(isinstance(each, str) for each in part.values()):
                return {key: self._label(key, text) for key, text in part.items()}
            case dict() if name == "annotations":
                return {key: self._annotation(key, text) for key, text in part.items()}
            case list() if name == "volumes":
                return [self._volume(each) for each in part]
            case dict() if path == () and name == "spec" and parent.get("kind") == "PersistentVolume":
                return {
                    key: self._field(key, each, below, part) if key in _VOLUME_FIELDS else self._source(each)
                    for key, each in part.items()
                }
            case list() if name in (
                "names",
                "matchLabelExpressions",
                "values",
                "clusterIPs",
                "imagePullSecrets",
            ):
                return self._listed(name, part, path, parent)
            case str() if name in _ADDRESSES:
                return self._address(part)
            case str() if name == "message":
                return self._message(part)
            case str() if name == "name" and _is_no_name(path, self._kind):
                return part
            case str() if name in _NAMES:
                return self._word(part)
            case _:
                return self._walk(part, below)

    def _listed(self, name: str, part: list[Any], path: tuple[str, ...], parent: Document) -> Any:
        if name == "names":  # of a node's image
            return [self._word(each) for each in part]
        if name == "clusterIPs":
            return [self._address(each) for each in part]
        if name == "values" and isinstance(parent.get("key"), str):
            return [self._label(parent["key"], each) for each in part]
        return self._walk(part, (*path, name))

    def _label(self, key: str, text: Any) -> Any:
        return text if _TELLING_KEYS.fullmatch(key) else self._word(text)

    def _annotation(self, key: str, text: Any) -> Any:
        if key in ("volume.kubernetes.io/selected-node", "resource.kubernetes.io/pod-claim-name"):
            return self._word(text)
        try:
            held = msgspec.json.decode(text) if isinstance(text, str) and text[:1] in "[{" else None
        except msgspec.DecodeError:
            held = None
        return msgspec.json.encode(self._walk(held, ("annotations",))).decode() if held else text

    def _volume(self, volume: Any) -> Any:
        if not isinstance(volume, dict):
            return volume
        return {
            key: self._field(key, part, ("volumes",), volume) if key in _KNOWN_SOURCES else self._source(part)
            for key, part in volume.items()
        }

    def _source(self, value: Any) -> Any:
        """Return the source of a volume with every text renamed but what says what it is."""
        if isinstance(value, list):
            return [self._source(each) for each in value]
        if isinstance(value, dict):
            return {
                key: part if key in _SOURCE_WORDS_KEPT else self._source(part) for key, part in value.items()
            }
        return self._word(value)

    def _address(self, text: str) -> str:
        """Return another address for one; what is none, or means any, stays."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        if address.is_unspecified or address.is_loopback:
            return text
        number = re.sub(r"\D", "", self._rename(text)) or "1"
        return str(ipaddress.IPv4Address(int(ipaddress.IPv4Address("10.0.0.0")) + int(number) % (1 << 24)))


def _is_no_name(path: tuple[str, ...], kind: Any) -> bool:
    return path[-1:] != () and (path[-1] in _NO_NAMES or (path == ("metadata",) and kind in _CLASSES))


def _compared(text: str) -> bool:
    """Return whether operators may compare *text* as a number or a version."""
    try:
        parse_int64(text)
    except IntegerError:
        return find_tolerant(text) is not None
    return True
