"""The process that is killed: writes to a SQLite store and says so, until it dies.

Says `S <key> <value or ->` before a write is asked for and `A <key> <revision>` after it is acknowledged.
Usage: python -m tests.contract.crash_writer FILE OLDEST_NEEDED SEED
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from weir.store import Write
from weir.store.sqlite import SqliteStore


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def write_for_ever(store: SqliteStore, writer: int, seed: int) -> None:
    chance = random.Random(seed * 100 + writer)
    for step in range(1_000_000):
        key = f"/w{writer}/{chance.randrange(5)}"
        gone = store.get(key) is not None and chance.random() < 0.3
        value = None if gone else b"%d.%d.%d." % (seed, writer, step) + b"x" * chance.randrange(3000)
        say(f"S {key} {'-' if value is None else value.decode()}")
        [result] = await store.commit([Write(key, value)])
        say(f"A {key} {result.check().revision}")


async def main(path: str, needed: int, seed: int) -> None:
    store = await SqliteStore.open(path)
    say(f"R {store.revision}")
    writers = [asyncio.create_task(write_for_ever(store, writer, seed)) for writer in range(6)]
    if needed > store.compacted:
        await store.compact(needed)
    await asyncio.gather(*writers)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
