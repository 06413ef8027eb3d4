"""Claims about weir.cli._options: flags of Kubernetes' components mean what they mean there."""

import logging

import click
import pytest
from click.testing import CliRunner

from weir.cli._options import logging_options, rate_options
from weir.observe.logs import JsonFormatter, KlogFormatter, Log


@pytest.fixture(autouse=True)
def logger():
    logger = logging.getLogger("weir")
    before = logger.handlers[:], logger.level, logger.propagate
    yield logger
    logger.handlers[:], logger.level, logger.propagate = before


def run(*arguments, quiet=False):
    @click.command()
    @click.option("--nodes", type=int, default=3)
    @logging_options(quiet=quiet)
    def command(nodes):
        shown = max((n for n in range(11) if Log("weir.x").shows(n)), default=-1)
        click.echo(f"{nodes} {shown}")

    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], "3 0"),
        (["-v"], "3 2"),
        (["--verbose"], "3 2"),
        (["-v", "--nodes", "5"], "5 2"),
        (["-v", "4"], "3 4"),
        (["-v4"], "3 4"),
        (["--v=10", "--nodes", "5"], "5 10"),
        (["-v", "0"], "3 0"),
    ],
)
def test_the_level_is_written_as_for_kubernetes_components(arguments, shown):
    assert run(*arguments).output == f"{shown}\n"


def test_a_quiet_command_says_nothing_until_it_is_asked():
    assert run(quiet=True).output == "3 -1\n"
    assert run("-v", "0", quiet=True).output == "3 0\n"


@pytest.mark.parametrize("wrong", [["-v", "11"], ["-v", "loud"], ["--logging-format", "xml"]])
def test_what_is_no_level_or_form_is_refused_in_one_line(wrong):
    answer = run(*wrong)
    assert answer.exit_code == 2 and answer.output.splitlines()[-1].startswith("Error: Invalid value for")


@pytest.mark.parametrize(("form", "formatter"), [("json", JsonFormatter), ("text", KlogFormatter)])
def test_the_form_is_chosen(logger, form, formatter):
    assert run("--logging-format", form).exit_code == 0
    assert type(logger.handlers[0].formatter) is formatter


def test_a_rate_has_its_default_or_leaves_it_to_the_command():
    found: list[tuple[float | None, int | None]] = []

    def asked(qps, burst, *arguments: str) -> tuple[float | None, int | None]:
        @click.command()
        @rate_options("it", qps=qps, burst=burst)
        def command(qps: float | None, burst: int | None) -> None:
            found.append((qps, burst))

        assert CliRunner().invoke(command, arguments).exit_code == 0
        return found.pop()

    assert asked(20.0, 30) == (20.0, 30)
    assert asked("what a file says", "the same") == (None, None)
    assert asked(20.0, "the same", "--kube-api-qps=0", "--kube-api-burst=7") == (0.0, 7)
