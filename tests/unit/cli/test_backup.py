"""Claims about weir.cli.backup and weir.cli.restore: what cannot be done is one line, and nothing is changed."""

import asyncio

import pytest

from weir.cli.main import run
from weir.store import Write
from weir.store.sqlite import SqliteStore


@pytest.fixture
def folder(tmp_path):
    async def fill():
        store = await SqliteStore.open(tmp_path / "store.db")
        await store.commit([Write("/registry/a", b"{}")])
        await store.close()

    asyncio.run(fill())
    return tmp_path


def test_a_copy_goes_there_and_back(folder, capsys):
    copy = folder / "copy"
    assert run(["backup", str(copy), "--data-dir", str(folder)]) == 0
    assert "1 objects at revision 2" in capsys.readouterr().out
    assert run(["restore", str(copy), "--data-dir", str(folder), "--yes"]) == 0
    assert "1 objects, from revision 1000000002 on" in capsys.readouterr().out
    assert run(["restore", str(copy), "--data-dir", str(folder / "new")]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["backup", "{}/store.db", "--data-dir", "{}"], "exists already"),
        (["backup", "{}/copy", "--data-dir", "{}/nowhere"], "there is no store"),
        (["backup", "{}/no/copy", "--data-dir", "{}"], "cannot write"),
        (["backup", "{}/copy", "--store", "memory"], "a store in memory cannot be copied"),
        (["restore", "{}/none", "--data-dir", "{}", "--yes"], "there is no backup"),
        (["restore", "{}/store.db.lock", "--data-dir", "{}", "--yes"], "not a backup"),
    ],
)
def test_what_cannot_be_done_is_one_line(folder, words, said, capsys):
    before = (folder / "store.db").read_bytes()
    assert run([word.format(folder) for word in words]) in (1, 2)
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and "Traceback" not in captured.err
    assert (folder / "store.db").read_bytes() == before


def test_without_a_yes_nothing_is_replaced(folder, capsys):
    run(["backup", str(folder / "copy"), "--data-dir", str(folder)])
    before = (folder / "store.db").read_bytes()
    assert run(["restore", str(folder / "copy"), "--data-dir", str(folder)]) != 0
    assert (folder / "store.db").read_bytes() == before
