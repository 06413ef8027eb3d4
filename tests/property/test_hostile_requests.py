"""No query, header, token, patch, quantity or webhook's answer makes the server fail (make fuzz sends 100,000)."""

from __future__ import annotations

from tests.fuzz import fuzz


async def test_no_hostile_request_makes_the_server_fail(tmp_path):
    assert await fuzz(1500, 14, tmp_path) == []
