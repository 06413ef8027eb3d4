"""Claims about weir.cli.backup and weir.cli.restore: what cannot be done is one line, and nothing is changed.

The etcd part of docs/howto/back-up-and-restore.md is run with a program that stands for `etcdutl`.
"""

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


def snapshot(folder):
    path = folder / "monday.snapshot"
    path.write_bytes(bytes(16) + bytes.fromhex("edda0ced") + bytes(100))
    return path


def test_a_snapshot_of_etcd_is_put_back_by_etcds_own_program(tmp_path, monkeypatch, capsys):
    program = tmp_path / "etcdutl"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked; [ ! -e {tmp_path}/broken ] || {{ echo no room >&2; exit 1; }}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    words = [
        "restore",
        str(snapshot(tmp_path)),
        "--etcd-data-dir",
        str(tmp_path / "m1"),
        "--",
        "--name",
        "m1",
    ]
    assert run(words) == 0
    assert "a new member of etcd" in capsys.readouterr().out
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith(f"snapshot restore {tmp_path}/monday.snapshot --data-dir {tmp_path}/m1 ")
    assert asked.endswith("--bump-revision 1000000000 --mark-compacted --name m1\n")
    (tmp_path / "broken").touch()
    assert run(words) == 1 and capsys.readouterr().err == "weir: etcdutl failed: no room\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a new member's folder with --etcd-data-dir"),
        (["--etcd-data-dir", "."], "exists already"),
        (["--etcd-data-dir", "m1"], "etcdutl is not installed; it comes with etcd 3.6"),
    ],
)
def test_a_snapshot_of_etcd_that_cannot_be_put_back_is_one_line(tmp_path, monkeypatch, words, said, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    assert run(["restore", str(snapshot(tmp_path)), *words]) in (1, 2)
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1


def test_a_member_is_not_made_of_another_copy(folder, capsys):
    assert run(["restore", str(folder / "store.db"), "--etcd-data-dir", str(folder / "m1")]) == 2
    assert "is for snapshots of etcd" in capsys.readouterr().err


def test_without_a_yes_nothing_is_replaced(folder, capsys):
    run(["backup", str(folder / "copy"), "--data-dir", str(folder)])
    before = (folder / "store.db").read_bytes()
    assert run(["restore", str(folder / "copy"), "--data-dir", str(folder)]) != 0
    assert (folder / "store.db").read_bytes() == before
