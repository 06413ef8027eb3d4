"""What the file gives back is what was put in, however many changes came together."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.store import journal
from weir.store.backend import Event, KeyValue
from weir.store.journal import Journal

values = st.none() | st.binary(max_size=40)
changes = st.lists(st.tuples(st.sampled_from(["/a", "/b/é", "/c"]), values, st.booleans()), max_size=90)


def events(wanted: list[tuple[str, bytes | None, bool]]) -> list[Event]:
    """Return the changes as a store would ask for them: nothing is deleted that is not there."""
    current: dict[str, KeyValue] = {}
    found = []
    revision = 2
    for key, value, expires in wanted:
        before = current.pop(key, None)
        if value is None:
            if before is not None:
                found.append(Event(key, revision, None, before))
                revision += 1
            continue
        born = before.create_revision if before is not None else revision
        stamp = min(3, len(value))
        value = b"%b%d%b" % (value[:stamp], revision, value[stamp:])
        current[key] = KeyValue(key, value, born, revision, stamp, 9.5 if expires else 0.0)
        found.append(Event(key, revision, current[key], before))
        revision += 1
    return found


def read_back(parts: list[list[Event]]) -> object:
    with tempfile.TemporaryDirectory() as folder:
        file = Journal(Path(folder) / "store.db")
        for part in parts:
            file.append(part)
        loaded = file.load()
        file.close()
    return loaded.items, [(event.key, event.revision, event.now, event.before) for event in loaded.events]


@settings(max_examples=30, deadline=None)
@given(changes)
def test_changes_read_back_the_same_alone_and_together(wanted: list[tuple[str, bytes | None, bool]]) -> None:
    every = events(wanted)
    alone = [[event] for event in every]
    assert read_back(alone) == read_back([every] if every else [])


def test_a_large_group_and_a_small_one_are_written_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    every = events([("/a", b"1", False), ("/b", b"\0\xff", True), ("/a", None, False)])
    small = read_back([every])
    monkeypatch.setattr(journal, "_MOST_ROWS", 1)
    assert read_back([every]) == small


def test_the_write_ahead_log_is_moved_when_it_grew_and_not_again_after_that(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(journal, "_CHECKPOINT_BYTES", 100)
    file = Journal(tmp_path / "store.db")
    first, second = events([("/a", b"x" * 200, False), ("/b", b"", False)])
    file.append([first])
    due = [file.checkpoint_due]
    file.checkpoint()
    file.append([second])
    due.append(file.checkpoint_due)
    file.close()
    assert due == [True, False]
