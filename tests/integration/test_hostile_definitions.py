"""Definitions with pathological schemas are refused or served, and objects against them, in bounded time and memory.

`make test` asks every sixth of them, `make test-fresh` all.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cases import sample, table
from tests.hostile_definitions import CASES, GROUP, custom_object, definition
from tests.unit.apiserver.customresources.world import CRDS, Server, established, server
from tests.work import slowness
from weir.apiserver.transport.http import Request, Response

#: Of processor time of an idle machine, for a definition, for an object, and for reading it.
MOST_SECONDS = 2.0
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
) -> tuple[int, float]:
    """Return the code of the answer and the processor time it took."""
    token = there.running.admin_token.encode()
    headers = {b"authorization": b"Bearer " + token, b"content-type": b"application/json"}
    if accept:
        headers[b"accept"] = accept.encode()
    began = time.process_time()
    answer = await there.running.server.handle(Request(method, path, "", headers, body))
    assert isinstance(answer, Response)
    return answer.code, time.process_time() - began


@table
@pytest.mark.parametrize("name", sample(CASES, 6))
async def test_no_definition_and_no_object_takes_long(name: str, tmp_path: Path) -> None:
    for attempt in range(3):  # what else the machine does only adds: the best of three counts
        slow, grown = await _costs(name, tmp_path / str(attempt))
        if not slow and grown < MOST_MIB:
            return
    assert slow == {} and grown < MOST_MIB, (slow, grown)


async def _costs(name: str, folder: Path) -> tuple[dict[str, float], float]:
    """Return which steps took too long, with their seconds, and by how many MiB the process grew."""
    case = CASES[name]
    folder.mkdir()
    async with server(folder) as there:
        written, stored = encoded(definition(case)), encoded(custom_object(case))
        assert len(stored) < 1_500_000
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
        before, seconds = memory("VmRSS"), {}
        code, seconds["definition"] = await measured(there, "POST", CRDS, written)
        assert code == 201 or 400 <= code < 500, code
        if code == 201:
            began = time.process_time()
            await there.until(f"{CRDS}/things.{GROUP}", established)
            seconds["established"] = time.process_time() - began
            code, seconds["object"] = await measured(there, "POST", THINGS, stored)
            assert code == 201 or 400 <= code < 500, code
            for accept in ("application/json", TABLE) if code == 201 else ():
                code, seconds[accept] = await measured(there, "GET", THINGS, accept=accept)
                assert code == 200
        grown = memory("VmHWM") - before
    slow = slowness()
    return {what: round(each, 2) for what, each in seconds.items() if each > MOST_SECONDS * slow}, grown
