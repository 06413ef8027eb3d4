"""The front door: light to open, one line per error, exit codes of the guide."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from weir.cli import main as cli
from weir.errors import NotFound, ServiceUnavailable
from weir.exit_codes import BUG, CANNOT_SAY, FINDINGS, FINE, USAGE
from weir.gates import GateError

#: What takes long to import; none of it is needed to print a help text.
HEAVY = {
    "aiohttp", "asyncio", "cryptography", "google", "msgspec", "numpy", "prometheus_client", "re2", "rich",
    "ssl", "uvicorn", "yaml", "weir.objects", "weir.cel", "weir.explain", "weir.lint", "weir.validate",
}  # fmt: skip


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines())


def test_a_reader_that_left_is_neither_fine_nor_a_finding():
    """A shell with `pipefail` must not take `weir … | head -1` for an answer."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "weir", "explain", "-f", "examples/checkout"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (cli.READER_LEFT, "")


def test_a_missing_choice_is_one_line(capsys):
    assert cli.run(["completion"]) == USAGE
    assert capsys.readouterr().err.startswith(
        "weir: Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish (see"
    )


def test_help_imports_nothing_heavy():
    loaded = modules_after("from weir.cli.main import run\nassert run(['--help']) == 0")
    assert not loaded & HEAVY


def test_what_if_imports_no_server():
    assert not modules_after("import weir.whatif.run") & {
        "weir.apiserver.build",
        "weir.apiserver.server",
        "weir.simulation.cluster",
        "weir.controllers.compat.certificates",
    }


def test_help_lists_exactly_the_commands_that_exist(capsys):
    assert cli.run(["--help"]) == FINE
    shown = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    with click.Context(cli.weir) as context:
        assert set(cli.weir.list_commands(context)) <= shown
    assert "explain" in shown


@pytest.mark.parametrize("group", ["what-if", "cel", "device", "node"])
def test_help_of_a_group_cuts_no_summary(group, capsys):
    assert cli.run([group, "--help"]) == FINE
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_every_command_module_holds_a_command_of_its_name():
    with click.Context(cli.weir) as context:
        names = cli.weir.list_commands(context)
        assert all(isinstance(cli.weir.get_command(context, name), click.Command) for name in names)


def test_version_is_one_line(capsys):
    assert cli.run(["--version"]) == FINE
    assert capsys.readouterr().out.startswith("weir ")


def test_a_mistyped_command_is_one_line_with_a_suggestion(capsys):
    assert cli.run(["explian"]) == USAGE
    assert capsys.readouterr().err.splitlines() == [
        "weir: No such command 'explian'. Did you mean 'explain'? (see weir --help)"
    ]


@pytest.fixture
def failing(monkeypatch):
    """Return a function that makes `weir broken` raise an error."""

    def install(error: BaseException) -> None:
        module = ModuleType("weir.cli.broken")

        @click.command()
        def broken() -> None:
            raise error

        module.broken = broken
        monkeypatch.setitem(sys.modules, "weir.cli.broken", module)
        monkeypatch.setattr(cli.LazyGroup, "list_commands", lambda self, ctx: ["broken"])

    return install


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GateError("unrecognized feature gate: X"), USAGE),
        (FileNotFoundError(2, "No such file or directory", "pods.yaml"), USAGE),
        (click.BadParameter("no"), USAGE),
        (ConnectionRefusedError("refused"), CANNOT_SAY),
        (ServiceUnavailable("starting"), CANNOT_SAY),
        (NotFound(message='pods "web" not found'), FINDINGS),
        (RecursionError("deep"), USAGE),
        (KeyError("surprise"), BUG),
        (ValueError("a plain one is a bug\nwith two lines"), BUG),
    ],
)
def test_each_error_is_one_line_on_stderr_with_its_exit_code(failing, capsys, error, code):
    failing(error)
    assert cli.run(["broken"]) == code
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_traceback_comes_only_with_debug(failing, capsys):
    failing(KeyError("surprise"))
    cli.run(["broken"])
    assert "Traceback" not in capsys.readouterr().err
    cli.run(["broken", "--debug"])
    assert "Traceback" in capsys.readouterr().err


def test_a_kubeconfig_that_cannot_be_read_is_wrong_use(capsys, tmp_path):
    assert cli.run(["device", "list", "--kubeconfig", str(tmp_path / "nowhere")]) == USAGE
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "environment, terminal, colour",
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour_is_for_terminals_unless_the_environment_says_otherwise(
    monkeypatch, environment, terminal, colour
):
    from weir.output import wants_colour

    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    class Stream:
        def isatty(self):
            return terminal

    assert wants_colour(Stream()) is colour


def test_the_table_of_commands_and_the_files_agree():
    folder = Path(cli.__file__).parent
    files = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert files - {"interrupts", "main", "start"} == {name.replace("-", "_") for name in cli.COMMANDS}
