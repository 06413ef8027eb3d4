"""Images of Kubernetes' tests and examples: their default program, and whether they can be pulled.

An image is missing if its registry has the label `invalid` (RFC 2606), its tag is `404`, or its name says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from weir.simulation.kubelet.programs.syntax import Unplayable

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
#: agnhost's servers: they run until they are stopped.
_SERVERS: Final = frozenset(
    {
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
        *(
            "no-snat-test",
            "no-snat-test-proxy",
            "resource-consumer-controller",
            "tcp-reset",
            "grpc-health-checking",
        ),
        *("logs-generator", "guestbook", "audit-proxy", "fake-gitserver", "inclusterclient"),
    }
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
    found = _REFERENCE.fullmatch(image)
    if found is None:
        return None
    host, path, tag = found["registry"] or "", found["path"], found["tag"] or "latest"
    if "." in host or ":" in host or host == "localhost":
        return Reference(host, path, tag)
    return Reference("docker.io", f"{host}/{path}".lstrip("/"), tag)


def is_missing(image: str) -> bool:
    """Return whether an image is named as one that does not exist.

    >>> [is_missing(each) for each in ("web:1", "web:404", "invalid.registry.k8s.io/invalid/alpine:3.1")]
    [False, True, True]
    """
    found = reference(image)
    if found is None:
        return False
    labels = found.registry.partition(":")[0].split(".")
    return "invalid" in labels or found.tag == "404" or any(each in found.repository for each in _SAYS_SO)


def program(image: str, command: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
    """Return what is run in a container of *image*; raises Unplayable where that is not known.

    >>> program("registry.k8s.io/pause:3.10", (), ())
    ('/pause',)
    >>> program("example.com/web", ("sh", "-c"), ("exit 3",))
    ('sh', '-c', 'exit 3')
    """
    if not command:
        found = reference(image)
        name = found.repository.rpartition("/")[2] if found is not None else ""
        if name == "pause":
            return ("/pause",)
        if name == "agnhost":
            command, arguments = ("/agnhost",), arguments or ("pause",)
        elif name == "busybox" and arguments:
            command = ()
        else:
            raise Unplayable("what the image runs by itself is not known")
    words = (*command, *arguments)
    if words[0] in ("/agnhost", "agnhost") and words[1:2] and words[1] in _SERVERS:
        return ("/agnhost", "pause") if words[1] == "pause" else ("/pause",)
    return words
