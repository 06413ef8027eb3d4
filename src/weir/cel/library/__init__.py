"""Function libraries, and those that Kubernetes enables.

Spec: cel.md 9.1 "Base environment". One module per library; each holds its functions with signatures,
implementations, messages and prices side by side. The order is the order overloads are tried in.
"""

from __future__ import annotations

from typing import Final

from weir.cel.env import Library
from weir.cel.library import (
    authorizer,
    conversions,
    formatting,
    ip,
    lists,
    named_formats,
    optionals,
    quantity,
    regex,
    semver,
    standard,
    strings,
    times,
    two_variable,
    url,
)

#: The language's own functions: every environment has them.
STANDARD: Final = Library(
    "standard",
    (*standard.FUNCTIONS, *conversions.FUNCTIONS, *times.FUNCTIONS, *regex.MATCHES),
    types=standard.TYPES,
    undefined=standard.UNDEFINED,
)

#: `cel.bind`: only the environment of device selectors has it.
BIND: Final = Library("bind", (), macros=frozenset({"bind"}))

#: What the Kubernetes base environment switches on.
KUBERNETES: Final[tuple[Library, ...]] = (
    STANDARD,
    strings.LIBRARY,
    formatting.LIBRARY,
    optionals.LIBRARY,
    lists.SETS,
    url.LIBRARY,
    lists.LIBRARY,
    regex.LIBRARY,
    authorizer.LIBRARY,
    quantity.LIBRARY,
    ip.LIBRARY,
    ip.CIDR_LIBRARY,
    named_formats.LIBRARY,
    semver.LIBRARY,
    two_variable.LIBRARY,
)
