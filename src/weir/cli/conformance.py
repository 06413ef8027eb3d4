"""`weir conformance`: plays the KEPs' stories in a live cluster and reports what it does.

The run uses its own nodes, namespaces and names, and removes everything at the end, also after Ctrl-C and SIGTERM.
After a SIGKILL `--clean` does that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weir.cli._confirm import yes_option
from weir.cli._options import live_options, output_option
from weir.exit_codes import FINE
from weir.output import say_lines, table


@click.command(
    epilog="Exit codes: 0 all that is offered passes, 1 something fails, 2 wrong use, 3 cannot say (rights are "
    "missing, or the cluster is out of reach), 130 and 143 interrupted; what was made is taken away in every case."
)
@click.argument("stories", nargs=-1, metavar="[STORY…]")
@click.option("--list", "only_list", is_flag=True, help="List the stories with what they need, and leave.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Your own stories (*.yaml) in place of the built-in ones.",
)
@click.option(
    "--clean", "only_clean", is_flag=True, help="Take away what runs left that were killed, and leave."
)
@click.option(
    "--at-once", type=click.IntRange(1, 100), help="How many stories are played at once (default 12)."
)
@click.option(
    "--late", type=click.FloatRange(0.0), default=4.0, show_default=True,
    help="Seconds by which something may happen later than specified.",
)  # fmt: skip
@click.option(
    "--patience",
    type=click.FloatRange(0.0),
    default=12.0,
    show_default=True,
    help="Seconds that a step may take longer than specified until its outcomes hold.",
)
@live_options
@yes_option
@output_option("text", "json", "junit", "html")
def conformance(only_list: bool, stories: tuple[str, ...], folder: Path | None, **options: Any) -> int:
    """Play the KEPs' stories in a live cluster, and say which come out as specified there.

    STORY is a name or a part of one; without any, all are played, in about ten minutes. Each story has simulated nodes
    and namespaces of its own, which nothing else uses; everything is taken away at the end.

    \b
    weir conformance --context staging
    weir conformance kep-5471 --yes -o junit > report.xml
    weir conformance --clean
    """
    from weir.simulation.demo.story import FOLDER, choose, find_stories

    chosen = (
        []
        if options["only_clean"]
        else choose(find_stories(folder or FOLDER), stories, command="conformance")
    )
    if only_list:
        say_lines(table([(s.name, s.title, ", ".join(s.needs)) for s in chosen], indent=0))
        return FINE
    from weir.cli._conformance_run import answer  # needs POSIX, the list does not

    return answer(chosen, folder or FOLDER, **options)
