"""`weir`: the command group, with sub-commands imported on use.

A command is a file `weir/cli/<command>.py` with a click command of the same name, and a row in SECTIONS with its
summary, so that `weir --help` imports nothing else. Exit codes: 0 fine, 1 findings, 2 usage or unreadable input, 3
unknown (unreachable cluster, missing permissions, unknown gates), 70 a bug in weir. Errors are one line on stderr;
`--debug` (or WEIR_DEBUG=1) adds the traceback.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from weir.cli import interrupts
from weir.exit_codes import BUG, CANNOT_SAY, FINDINGS, FINE, INTERRUPTED, READER_LEFT, USAGE

#: Commands that only ask: an interrupt ends them at once, whatever they are doing, and leaves nothing behind.
QUESTIONS: Final = ("explain", "lint", "cel", "what-if", "plan", "skew", "advise", "demo")
#: Their thresholds of garbage collection: what a question makes lives until it is answered, with few cycles.
_RARELY: Final = (200_000, 20, 100)

#: Every command with what `weir --help` says of it, in this order; a test holds it against the files beside this one.
SECTIONS: Final[tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = (
    (
        "Questions, about files or a live cluster",
        (
            ("explain", "Say where a pod fits, why not elsewhere, and the smallest change that helps"),
            ("lint", "Check manifests with the API server's own words, and for traps it accepts"),
            ("cel", "Compile, check and evaluate a CEL expression, with its cost"),
            ("what-if", "Say what a change to the cluster would do before making it"),
            ("plan", "Find the safe way to a change: waves that keep budgets and leave no pod pending"),
            ("skew", "Judge a workload by every mix of old and new components"),
            ("advise", "Say which thresholds keep how many nodes, and who is one value from nowhere"),
            ("snapshot", "Write down a cluster in one file, for all of these"),
            ("ui", "Look at a cluster in the browser: what fits where, what a change does, the devices"),
        ),
    ),
    (
        "A cluster",
        (
            ("demo", "Live through the stories of the KEPs in a cluster of their own"),
            ("up", "Run a whole cluster by one command"),
            ("status", "Say whether that runs, and how its nodes and pods are"),
            ("down", "Stop it; its state stays"),
            ("backup", "Copy its state to a file while it runs"),
            ("restore", "Put such a copy in its place"),
            ("apiserver", "Serve the Kubernetes API"),
            ("kubeconfig", "Write a kubeconfig for a user, a component or a node"),
            ("scheduler", "Place pods"),
            ("controller-manager", "Evict pods, watch over nodes, run DaemonSets, Deployments and the rest"),
            ("device", "Show devices with their taints and who has them; taint, drain and degrade them"),
            ("node", "Add simulated nodes, switch them off and on"),
            ("kubelet", "Play simulated nodes and the life of their pods"),
        ),
    ),
    (
        "A cluster you already run",
        (
            ("install", "Print or apply what gives any Kubernetes numeric, SemVer and CEL tolerations"),
            ("conformance", "Play the stories of the KEPs in it, and say what it really does"),
            ("check", "Ask whether a cluster is ready for that, and whether all is well with it"),
            ("uninstall", "Take it out again, in the safe order"),
            ("operator", "Run what that installs: the webhooks and the controller behind them"),
        ),
    ),
    (
        "Your shell",
        (("completion", "Print the completion script of bash, zsh or fish"),),
    ),
)
COMMANDS: Final = tuple(name for _, commands in SECTIONS for name, _ in commands)

EXAMPLES: Final = """\
Examples:
  weir explain -f pod.yaml --cluster snapshot.yaml
  weir snapshot && weir explain -f pod.yaml --cluster snapshot.json.gz
  weir lint manifests/
"""


class LazyGroup(click.Group):
    """A group whose commands are modules beside this one, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"weir.cli.{name}"), name)
        assert isinstance(command, click.Command), f"weir.cli.{name} has no click command called {name}"
        if not any(parameter.name == "debug" for parameter in command.params):
            command.params.append(_debug_option(hidden=True))
        if "_WEIR_COMPLETE" in os.environ:
            from weir.cli.completion import complete_names

            complete_names(cmd_name, command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click would print an empty line
            raise click.Abort from None
        except BrokenPipeError:  # click would exit with 1, which are findings
            sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  # nothing more can be written
            return READER_LEFT

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        _take_interrupts_over(args[0])
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = _closest(args[0], self.list_commands(ctx))
            if not close or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean {close!r}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("\n" + EXAMPLES)


def _closest(word: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, n=1)), "")


def _remember_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().meta["weir.debug"] = True


def _debug_option(hidden: bool = False) -> click.Option:
    return click.Option(
        ["--debug"],
        is_flag=True,
        hidden=hidden,
        expose_value=False,
        is_eager=True,
        callback=_remember_debug,
        help="Show the traceback of an error.",
    )


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"weir {importlib.import_module('weir').__version__}")
        ctx.exit()


weir = LazyGroup(
    name="weir",
    help="Kubernetes' extended taints and tolerations: explained, checked, simulated and served.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    params=[
        _debug_option(),
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_print_version,
            help="Print the version and leave.",
        ),
    ],
    callback=lambda: None,
)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run `weir` with *args* (the process's own when None) and leave with its exit code."""
    given = list(sys.argv[1:] if args is None else args)
    if _asks(given):
        gc.set_threshold(*_RARELY)
    code = run(given)
    gc.freeze()  # what is left goes with the process: the interpreter need not look through it
    sys.exit(code)


def run(args: list[str]) -> int:
    """Return the exit code of `weir *args*`; what went wrong is one line on stderr."""
    from weir.output import fit_encoding

    debug = bool(os.environ.get("WEIR_DEBUG")) or "--debug" in args
    fit_encoding()
    try:
        result = weir.main(args=args, prog_name="weir", standalone_mode=False)
    except Exception as error:
        if debug:
            import traceback

            from weir.output import say_lines

            say_lines(traceback.format_exc().split("\n"), err=True)
        return report(error)
    except KeyboardInterrupt:
        return report(click.Abort())
    return result if isinstance(result, int) else FINE


def _take_interrupts_over(command: str) -> None:
    """Take Ctrl-C over from weir.cli.interrupts, in a process that is this command and does not ignore it.

    A question is still ended by that handler: its simulated cluster may be in the middle of anything, and cannot
    always be stopped in order from there.
    """
    if signal.getsignal(signal.SIGINT) is interrupts.end_now and command not in QUESTIONS:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _asks(args: Sequence[str]) -> bool:
    return next((word for word in args if not word.startswith("-")), "") in QUESTIONS


def _instead(error: click.UsageError) -> str:
    """Return what to write for an option that kubectl has where the command has another one; "" for other mistakes."""
    if not isinstance(error, click.NoSuchOption):
        return ""
    known = [name for param in error.ctx.command.params for name in param.opts] if error.ctx else []
    match error.option_name:
        case "-f" | "--filename" if "--cluster" in known:
            return " A cluster's objects are given with --cluster FILE."
        case "-k" | "--kustomize" if "-f" in known:
            return " Render it first: kustomize build DIR, and read that with -f -."
    return ""


def report(error: Exception) -> int:
    """Say in one line what went wrong and return the exit code for it."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message())
            return USAGE
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "weir"
            message = " ".join(line.strip() for line in error.format_message().splitlines())
            return _say(f"{message}{_instead(error)} (see {where} --help)", USAGE)
        case click.Abort():
            if sys.stderr.isatty():
                click.echo(err=True)  # the line has ^C, or a question, on it
            return _say("interrupted", INTERRUPTED)
        case click.ClickException():
            return _say(error.format_message(), error.exit_code)
        case ConnectionError():
            return _say(f"cannot reach the cluster: {_one_line(error)}", CANNOT_SAY)
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return _say(f"{where}{error.strerror or _one_line(error)}", USAGE)
        case ValueError() if type(error).__module__.startswith("weir."):
            remedy = str(getattr(error, "fix", "")).partition(":")[0]
            return _say("; ".join(filter(None, (_one_line(error), remedy))), USAGE)
        case ModuleNotFoundError(name="fcntl" | "resource"):
            return _say("this command needs Linux or macOS; on Windows run it in WSL 2", CANNOT_SAY)
        case MemoryError() | RecursionError():
            return _say("the input is too large or nested too deeply", USAGE)
    from weir.errors import Forbidden, ServiceUnavailable, Unauthorized, WeirError

    if isinstance(error, WeirError):
        from weir.client.api import Unreachable
        from weir.client.kubeconfig import KubeconfigError

        if isinstance(error, KubeconfigError):
            return _say(_one_line(error), USAGE)
        unanswered = isinstance(error, ServiceUnavailable | Unreachable | Unauthorized | Forbidden)
        return _say(_one_line(error), CANNOT_SAY if unanswered else FINDINGS)
    return _say(f"internal error: {type(error).__name__}: {_one_line(error)} (--debug shows where)", BUG)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _say(message: str, code: int) -> int:
    from weir.output import say

    try:
        say(f"weir: {message}", err=True)
    except OSError:  # a full disk: the exit code still says it
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    return code


if __name__ == "__main__":
    main()
