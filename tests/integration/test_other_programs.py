"""pre-commit, GitHub and container engines start weir as their files here say; each is tried the way they do it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.e2e.warm import WARM
from tests.image import instructions, last_stage
from weir.cli.main import weir

ROOT = Path(__file__).parents[2]
GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n"
BAD = GOOD.replace("name: web", "name: WEB")
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '8', memory: 8Gi, pods: '9'}}\n"
FULL = NODE.replace("metadata: {name: n1}", "metadata: {name: n1}\nspec: {unschedulable: true}")


@pytest.fixture
def place(tmp_path):
    """A checkout with manifests, and weir on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "weir").write_text(f'#!/bin/sh\nexec {shlex.join(WARM)} "$@"\n')
    (programs / "python").write_text('#!/bin/sh\necho "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    for name, text in (("good.yaml", GOOD), ("bad.yaml", BAD), ("room.yaml", NODE), ("full.yaml", FULL)):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(place, command, **environment):
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=place,
        env={"PATH": path, "HOME": str(place), **environment},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


# ── pre-commit ───────────────────────────────────────────────────────────────────────────────────

HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


def hooked(place, name, args, files):
    hook = HOOKS[name]
    passed = files if hook.get("pass_filenames", True) else []
    return run(place, [*shlex.split(hook["entry"]), *args, *passed])


@pytest.mark.parametrize(
    "name, args, files, code",
    [
        ("weir-lint", [], ["good.yaml"], 0),
        ("weir-lint", [], ["good.yaml", "bad.yaml"], 1),
        ("weir-explain", ["-f", "good.yaml", "--cluster", "room.yaml"], ["good.yaml"], 0),
        ("weir-explain", ["-f", "good.yaml", "--cluster", "full.yaml"], ["good.yaml"], 1),
    ],
)
def test_a_hook_passes_what_is_fine_and_stops_what_is_not(place, name, args, files, code):
    done, said = hooked(place, name, args, files)
    assert done == code, said


def test_hooks_have_what_pre_commit_demands():
    assert all({"id", "name", "entry", "language"} <= set(hook) for hook in HOOKS.values())


# ── GitHub ───────────────────────────────────────────────────────────────────────────────────────

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}


def acted(place, step, **inputs):
    """Run a step as GitHub does: inputs filled in, bash with -e and pipefail."""
    given = {name: entry["default"] for name, entry in ACTION["inputs"].items()} | inputs
    environment = {
        name: text.replace("${{ github.action_path }}", "/action")
        for name, text in STEPS[step]["env"].items()
    }
    for name, value in given.items():
        environment = {
            key: text.replace(f"${{{{ inputs.{name} }}}}", value) for key, text in environment.items()
        }
    assert not any("${{" in text for text in environment.values())
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]]
    return run(place, script, **environment)


@pytest.mark.parametrize(
    "inputs, code",
    [
        ({"files": "good.yaml"}, 0),
        ({"files": "good.yaml bad.yaml"}, 1),
        ({"command": "explain", "files": "good.yaml", "cluster": "room.yaml"}, 0),
        ({"command": "explain", "files": "good.yaml", "cluster": "full.yaml", "arguments": "-o json"}, 1),
        ({"command": "demolish"}, 2),
    ],
)
def test_the_action_passes_what_is_fine_and_fails_what_is_not(place, inputs, code):
    done, said = acted(place, "Run weir", **inputs)
    assert done == code, said


@pytest.mark.parametrize("version, installed", [("", "/action"), ("weir-k8s==0.1.0", "weir-k8s==0.1.0")])
def test_the_action_installs_its_own_revision_unless_told_otherwise(place, version, installed):
    assert acted(place, "Install weir", version=version) == (0, f"-m pip install --quiet {installed}\n")


def test_words_of_an_input_are_no_commands(place):
    done, said = acted(place, "Run weir", files="good.yaml; touch owned")
    assert done != 0 and not (place / "owned").exists(), said


# ── containers ───────────────────────────────────────────────────────────────────────────────────


def test_a_container_runs_without_rights_and_finds_what_it_copies():
    user = dict(last_stage())["USER"].split(":")[0]
    assert int(user) > 0
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    sources = [source for each in copied for source in each]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"pyproject.toml", "src", project["readme"], *project["license-files"]} <= set(sources)


def test_what_a_container_starts_is_a_command_with_its_options():
    words = dict(instructions())
    command = json.loads(words["ENTRYPOINT"]) + json.loads(words["CMD"])
    up = weir.get_command(None, command[1])
    options = {option for parameter in up.params for option in parameter.opts}
    assert command[0] == "weir" and {word for word in command[2:] if word.startswith("--")} <= options
