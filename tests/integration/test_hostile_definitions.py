"""Definitions with pathological schemas, and objects against them, are refused or served with bounded work.

`make test` asks every sixth of them, `make test-fresh` all.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases import sample, table
from tests.hostile_definitions import CASES, GROUP, custom_object, definition
from tests.unit.apiserver.compat.customresources.world import CRDS, Server, established, server
from tests.work import counting_calls
from weir.apiserver.transport.http import Request, Response

#: Of functions, for a definition, for an object, and for reading it.
MOST_CALLS = 3_000_000
MOST_MIB = 150
THINGS = f"/apis/{GROUP}/v1/namespaces/default/things"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def encoded(document: Any) -> bytes:
    """Return *document* as JSON, however deep it is; the server has the ordinary limit."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        return json.dumps(document, separators=(",", ":")).encode()
    finally:
        sys.setrecursionlimit(limit)


def memory(field: str) -> float:
    """Return VmRSS or VmHWM of this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


async def measured(
    there: Server, method: str, path: str, body: bytes = b"", accept: str = ""
) -> tuple[int, int]:
    """Return the code of the answer and how many functions were called for it."""
    token = there.running.admin_token.encode()
    headers = {b"authorization": b"Bearer " + token, b"content-type": b"application/json"}
    if accept:
        headers[b"accept"] = accept.encode()
    with counting_calls() as calls:
        answer = await there.running.server.handle(Request(method, path, "", headers, body))
    assert isinstance(answer, Response)
    return answer.code, calls.number


@table
@pytest.mark.parametrize("name", sample(CASES, 6))
async def test_no_definition_and_no_object_is_dear(name: str, tmp_path: Path) -> None:
    case, calls = CASES[name], {}
    async with server(tmp_path) as there:
        written, stored = encoded(definition(case)), encoded(custom_object(case))
        assert len(stored) < 1_500_000
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
        before = memory("VmRSS")
        code, calls["definition"] = await measured(there, "POST", CRDS, written)
        assert code == 201 or 400 <= code < 500, code
        if code == 201:
            await there.until(f"{CRDS}/things.{GROUP}", established)
            code, calls["object"] = await measured(there, "POST", THINGS, stored)
            assert code == 201 or 400 <= code < 500, code
            for accept in ("application/json", TABLE) if code == 201 else ():
                code, calls[accept] = await measured(there, "GET", THINGS, accept=accept)
                assert code == 200
        grown = memory("VmHWM") - before
    assert {what: each for what, each in calls.items() if each > MOST_CALLS} == {}
    assert grown < MOST_MIB
