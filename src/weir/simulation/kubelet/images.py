"""Image names: which can be pulled, and which images run until they are stopped.

An image is missing if its registry has the label `invalid` (RFC 2606), its tag is `404`, or its name says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_REFERENCE: Final = re.compile(
    r"(?:(?P<registry>[a-zA-Z0-9][a-zA-Z0-9.-]*(?::\d+)?)/)?"
    r"(?P<path>[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@[a-z0-9+._-]+:[0-9a-fA-F]{32,})?"
)
_SAYS_SO: Final = (
    "doesnt-exist",
    "does-not-exist",
    "nonexistent",
    "non-existent",
    "broken-image",
    "no-such-image",
)
#: Commands of agnhost that serve until they are stopped.
_SERVERS: Final = (
    *(
        "pause",
        "netexec",
        "serve-hostname",
        "test-webserver",
        "liveness",
        "webhook",
        "porter",
        "net",
        "nettest",
    ),
    *("grpc-health-checking", "guestbook", "audit-proxy", "fake-gitserver", "inclusterclient"),
)


class Reference(NamedTuple):
    """A name of an image, taken apart."""

    registry: str
    repository: str
    tag: str


def reference(image: str) -> Reference | None:
    """Return the parts of an image's name; None when it is no name at all.

    >>> reference("registry.k8s.io/pause:3.10")
    Reference(registry='registry.k8s.io', repository='pause', tag='3.10')
    >>> reference("!!!") is None
    True
    """
    parts = _REFERENCE.fullmatch(image)
    if parts is None:
        return None
    host, path, tag = parts["registry"] or "", parts["path"], parts["tag"] or "latest"
    if "." in host or ":" in host or host == "localhost":
        return Reference(host, path, tag)
    return Reference("docker.io", f"{host}/{path}".lstrip("/"), tag)


def is_missing(image: str) -> bool:
    """Return whether an image is named as one that does not exist.

    >>> [is_missing(each) for each in ("web:1", "web:404", "invalid.registry.k8s.io/invalid/alpine:3.1")]
    [False, True, True]
    """
    name = reference(image)
    if name is None:
        return False
    labels = name.registry.partition(":")[0].split(".")
    return "invalid" in labels or name.tag == "404" or any(word in name.repository for word in _SAYS_SO)


def runs_forever(image: str, command: Sequence[str], arguments: Sequence[str]) -> bool:
    """Return whether a container of *image* is a server that runs until it is stopped, whatever its restart policy.

    >>> runs_forever("registry.k8s.io/pause:3.10", (), ()), runs_forever("e2e/agnhost:2", (), ("netexec",))
    (True, True)
    """
    name = reference(image)
    program = name.repository.rpartition("/")[2] if name is not None else ""
    entrypoint = command or {"pause": ("/pause",), "nginx": ("nginx",), "agnhost": ("/agnhost",)}.get(
        program, ()
    )
    words = (*entrypoint, *arguments)
    if words[:1] in (("/agnhost",), ("agnhost",)):
        return len(words) == 1 or words[1] in _SERVERS
    return words[:1] in (("/pause",), ("nginx",))
