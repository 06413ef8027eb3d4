"""Runs specs: each part of a group by one e2e.test against a cluster of its own, several parts side by side."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.upstream.cluster import cluster
from tests.upstream.results import SKIPPED, Result, read_results
from tests.upstream.specs import focus, group_of, listed, parts

HERE = Path(__file__).parent
#: Most of a spec's time is waiting; Ginkgo ends a part that takes longer than this, and says which spec hung.
PART, PART_SECONDS = 20, 2400
ENDING_SECONDS = 120


def program() -> Path:
    """Return e2e.test, built if need be. `SystemExit` 3 where that cannot be."""
    built = subprocess.run([HERE / "build"], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise SystemExit(built.returncode)
    return Path(built.stdout.strip())


def kubectl(e2e: Path) -> str:
    """Return the kubectl that specs call: the one of the same release where it is built, else the machine's."""
    beside = e2e.parent / "kubectl"
    found = str(beside) if beside.exists() else os.environ.get("KUBECTL") or shutil.which("kubectl")
    if not found:
        raise SystemExit("specs call kubectl, and there is none: run `make kubernetes`, or set KUBECTL")
    return found


def all_names(e2e: Path) -> list[str]:
    """Return the names of all specs that the program has."""
    told = subprocess.run([e2e, "--list-tests"], capture_output=True, text=True, check=True)
    return listed(told.stdout)


def run_part(e2e: Path, names: Sequence[str], folder: Path) -> list[Result]:
    """Run some specs against a fresh cluster; the folder keeps what they and the cluster said."""
    folder.mkdir(parents=True)
    report = folder / "report.json"
    with cluster(folder) as kubeconfig, (folder / "e2e.log").open("wb") as log:
        words = [
            str(e2e),
            f"--kubeconfig={kubeconfig}",
            f"--kubectl-path={kubectl(e2e)}",
            "--provider=skeleton",
            "--dump-logs-on-failure=false",
            "--disable-log-dump",
            f"--e2e-output-dir={folder}",
            f"--ginkgo.json-report={report}",
            f"--ginkgo.timeout={PART_SECONDS}s",
            "--ginkgo.no-color",
            "--ginkgo.v",
            *(f"--ginkgo.focus={focus(name)}" for name in names),
        ]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        # Without an end there is no report, and that is what every spec of the part will say.
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                words,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                timeout=PART_SECONDS + ENDING_SECONDS,
                check=False,
            )
    return read_results(report, names)


def run(
    e2e: Path, groups: Mapping[str, Sequence[str]], folder: Path, jobs: int, tell: Callable[[str], None]
) -> list[Result]:
    """Run the specs of all groups and tell each part's results as they come; what fails is run once more.

    Upstream's specs are not wholly apart: what the one before left (a pod that still ends) may spoil the next. A spec
    that passes the second time says so.
    """
    results = _round(e2e, groups, folder, jobs, tell)
    failed = [result.name for result in results if not result.passed and result.state != SKIPPED]
    if failed:
        again: dict[str, list[str]] = {}
        for name in failed:
            again.setdefault(f"{group_of(name)}-again", []).append(name)
        second = {result.name: result for result in _round(e2e, again, folder, jobs, tell)}
        results = [
            replace(second[each.name], again=True) if each.name in second else each for each in results
        ]
    (folder / "results.json").write_text(json.dumps([vars(result) for result in results], indent=1))
    return results


def _round(
    e2e: Path, groups: Mapping[str, Sequence[str]], folder: Path, jobs: int, tell: Callable[[str], None]
) -> list[Result]:
    work = [
        (folder / f"{group}-{number}", part)
        for group, names in groups.items()
        for number, part in enumerate(parts(sorted(names), PART))
    ]
    results: list[Result] = []

    def one(where: Path, part: Sequence[str]) -> None:
        found = run_part(e2e, part, where)
        results.extend(found)
        tell("\n".join([f"── {where.name}", *(result.line() for result in found)]))

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(one, where, part) for where, part in work]:
            done.result()
    return results
