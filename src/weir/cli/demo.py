"""`weir demo`: plays the KEPs' stories in a simulated cluster and fails if one differs from its specification.

Each story has its own cluster in this process. Time is virtual; `--real-time` lets it pass in real time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weir.cli._options import output_option


@click.command()
@click.argument("stories", nargs=-1, metavar="[STORY…]")
@click.option("--list", "only_list", is_flag=True, help="List the stories and leave.")
@click.option("--real-time", is_flag=True, help="Let a second of the cluster take a second.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Your own stories (*.yaml) in place of the built-in ones.",
)
@output_option("text", "json", "yaml", "svg")
@click.option("--seed", type=int, default=0, help="Another history of the same stories.")
def demo(**options: Any) -> int:
    """Live through stories in a real cluster: API server, scheduler, controllers and simulated nodes.

    STORY is a name or a part of one; without any, all are told. Ends with 1 if an outcome is not the specified one.

    \b
    weir demo                      # all of them, about as fast as they can be read
    weir demo failure-probability  # one, by a part of its name
    weir demo kep-5500 --real-time
    weir demo inference -o svg > inference.svg
    """
    from weir.cli._demo_run import answer

    return answer(**options)
