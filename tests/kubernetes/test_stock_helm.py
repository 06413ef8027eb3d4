"""A real Helm 3 and a real, unmodified Kubernetes: weir's own chart, and charts with extended tolerations.

Helm 3 compares what it released before, what it releases now and what is there.
The operator runs as a process: nothing here runs the containers of a chart, so its Deployment and the way through its
Service are not covered.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ecosystem.conftest import built
from tests.kubernetes.programs import binaries, version
from tests.stock.drift import CLIENT_SIDE, KINDS, SERVER_SIDE, Seen, as_stored, look, manifest, shows_more
from tests.stock.real import Plane, installed, plane, start_operator
from weir.install.chart import files
from weir.install.manifests import Installation, documents
from weir.lowering.names import NAMESPACE
from weir.lowering.webhooks import MUTATING_CONFIGURATION, VALIDATING_CONFIGURATION, key_condition
from weir.output import to_yaml

IMAGE = "registry.example/weir:1"
HELM = "helm3"  #: of tests/ecosystem/versions
FORMS = ("plain", "annotated", "operators")
#: Helm again without a change, kubectl both ways, Helm again.
ORDER = ("install", "upgrade", "upgrade", CLIENT_SIDE, "upgrade", SERVER_SIDE, "upgrade")


class Programs:
    """Helm and kubectl for one cluster."""

    def __init__(self, made: Plane, folder: Path) -> None:
        self._helm, self._folder = str(built(HELM).programs / "helm"), folder
        self._kubeconfig = made.kubeconfigs[0]

    def helm(self, *words: str, code: int = 0) -> str:
        environment = {**os.environ, "HOME": str(self._folder), "KUBECONFIG": str(self._kubeconfig)}
        done = subprocess.run(
            [self._helm, *words], env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == code, f"helm {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def kubectl(self, *words: str, stdin: str = "") -> tuple[int, str]:
        command = [str(binaries() / "kubectl"), f"--kubeconfig={self._kubeconfig}", *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + (done.stderr if done.returncode else "")

    def objects(self, *words: str) -> list[dict[str, Any]]:
        code, output = self.kubectl("get", *words, "-o", "json")
        assert code == 0, output
        found = json.loads(output)
        return found.get("items", [found])


def written(folder: Path, contents: dict[str, str]) -> Path:
    """Write a chart; return its folder."""
    for path, text in contents.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def run(folder: Path, act: Callable[[Plane], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with plane(folder) as made:
            await act(made)

    asyncio.run(whole())


def test_the_chart_of_weir_is_installed_upgraded_and_taken_out(tmp_path: Path):
    chart = str(written(tmp_path / "chart", dict(files("1.2.3", to_yaml))))

    async def act(made: Plane) -> None:
        programs = Programs(made, tmp_path)
        at = ("-n", NAMESPACE)

        def install() -> None:
            of = ("--kube-version", version())
            assert "0 chart(s) failed" in programs.helm("lint", chart, "--set", f"image={IMAGE}")
            assert "image is required" in failure(programs, "template", chart, *of)
            rendered = programs.helm("template", "weir", chart, *of, *at, "--set", f"image={IMAGE}")
            expected = [each for each in documents(Installation(image=IMAGE)) if each["kind"] != "Namespace"]
            found = [each for each in yaml.safe_load_all(rendered) if each]
            assert sorted(map(named, found)) == sorted(map(named, expected))
            assert {named(each): each for each in found} == {named(each): each for each in expected}
            programs.helm("install", "weir", chart, *at, "--create-namespace", "--set", f"image={IMAGE}")

        await asyncio.to_thread(install)
        words = ["--secure-port=0", "--no-leader-elect"]
        start_operator(made, "operator", made.kubeconfigs[0], words, own_certificate=True)
        await made.until(lambda: " Ready " in made.operators[0].log, "the operator is ready")

        def hooks() -> list[dict[str, Any]]:
            names = (f"mutatingwebhookconfiguration/{MUTATING_CONFIGURATION}",
                     f"validatingwebhookconfiguration/{VALIDATING_CONFIGURATION}")  # fmt: skip
            return [hook for each in programs.objects(*names) for hook in each["webhooks"]]

        def ready() -> bool:
            return all(
                hook["clientConfig"]["service"].get("path", "/").count("/") > 1
                and ((kept := key_condition(hook["name"], frozenset())) is None
                     or kept["name"] in {each["name"] for each in hook["matchConditions"]})
                for hook in hooks()
            )  # fmt: skip

        for _ in range(100):
            if await asyncio.to_thread(ready):
                break
            await asyncio.sleep(0.3)

        def upgrade() -> None:
            before = hooks()
            assert ready(), before
            for _ in range(2):
                programs.helm("upgrade", "weir", chart, *at, "--set", f"image={IMAGE}")
                assert hooks() == before, "what the operator keeps there stays"
            more = ("--set", f"image={IMAGE}", "--set", "replicas=3")
            programs.helm("upgrade", "weir", chart, *at, *more)
            (deployment,) = programs.objects("deployment/weir-operator", *at)
            assert deployment["spec"]["replicas"] == 3 and hooks() == before
            programs.helm("uninstall", "weir", *at)
            for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
                assert programs.objects(kind) == []
            left = programs.objects("deployments,services,roles,rolebindings", *at)
            assert [each["metadata"]["name"] for each in left] == []

        await asyncio.to_thread(upgrade)

    run(tmp_path, act)


def failure(programs: Programs, *words: str) -> str:
    with pytest.raises(AssertionError) as raised:
        programs.helm(*words)
    return str(raised.value)


def named(document: dict[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory):
    """Give what each step showed of the objects of one chart, by kind and form."""
    folder = tmp_path_factory.mktemp("charts")
    found: dict[tuple[str, str], list[Seen]] = {}
    objects = {
        (kind, form): manifest(kind, form, f"{kind}-{form}".lower()) for kind in KINDS for form in FORMS
    }
    chart = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n"}
    chart |= {f"templates/{kind}-{form}.yaml": json.dumps(each) for (kind, form), each in objects.items()}
    place = str(written(folder / "app", chart))

    def play(programs: Programs) -> None:
        first: dict[tuple[str, str], dict[str, Any]] = {}
        for step in ORDER:
            answers = {}
            if isinstance(step, str):
                programs.helm(step, "app", place)
            for key, document in objects.items():
                if not isinstance(step, str):
                    answers[key] = programs.kubectl(*step, stdin=json.dumps(document))
                else:
                    answers[key] = (0, step)
            for key, document in objects.items():
                live = programs.objects(f"{key[0]}/{document['metadata']['name']}")[0]
                first.setdefault(key, live)
                found.setdefault(key, []).append(
                    look(programs.kubectl, step, answers[key], document, live, first[key])
                )
        for name in (f"deployment-{form}" for form in FORMS):
            assert len(programs.objects("replicasets", "-l", f"app={name}")) == 1, name

    async def whole() -> None:
        async with plane(folder) as made, installed(made):
            await made.node("n", ("sla", "950", "NoExecute"))
            await made.node("free")
            await asyncio.to_thread(play, Programs(made, folder))

    asyncio.run(whole())
    return found


@pytest.mark.parametrize("kind", KINDS)
class TestEveryStep:
    def test_an_annotation_shows_no_more_than_an_object_without_tolerations(self, seen, kind):
        pairs = zip(seen[kind, "annotated"], seen[kind, "plain"], strict=True)
        assert [shows_more(*pair) for pair in pairs] == [[]] * len(ORDER)

    def test_operators_in_the_list_conflict_with_nobody(self, seen, kind):
        pairs = zip(seen[kind, "operators"], seen[kind, "plain"], strict=True)
        shown = [shows_more(as_stored(one), as_stored(other)) for one, other in pairs]
        assert shown == [[]] * len(ORDER)
