"""Hostile manifests, snapshots, stories and configuration files: one line and the right exit code.

Work is counted in calls: five million take two seconds, as SECURITY.md promises, on a slow machine. `make test` gives
every text to some command and to some reader of files, `make test-fresh` to all of them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import weir
from tests.cases import sample, table
from tests.property.hostile_documents import NODE, POD, odd_objects, texts
from tests.work import counting_calls
from weir.apiserver.admission.chain import PluginError
from weir.apiserver.admission.configuration import read_event_limits
from weir.apiserver.compat.audit import parse_policy
from weir.apiserver.compat.encryption.configuration import ConfigurationError, parse
from weir.cli.main import run
from weir.client.kubeconfig import KubeconfigError, load
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE, USAGE
from weir.objects.manifest import ManifestError
from weir.simulation.demo.story import StoryError, parse_story

MOST_CALLS = 5_000_000
SOURCE = Path(weir.__file__).parent
BIG = {name: text for name, text in texts() if not name.startswith("odd ")}
COMMANDS = {
    "lint": ["lint", "hostile.yaml"],
    "lint beside": ["lint", "pod.json", "--cluster", "hostile.yaml"],
    "explain": ["explain", "-f", "hostile.yaml", "--cluster", "node.json"],
    "explain among": ["explain", "-f", "pod.json", "--cluster", "hostile.yaml"],
    "what-if": ["what-if", "drain", "n1", "--cluster", "hostile.yaml"],
    "what-if apply": ["what-if", "apply", "-f", "hostile.yaml", "--cluster", "node.json"],
    "advise": ["advise", "-f", "hostile.yaml", "--cluster", "node.json"],
    "advise all": ["advise", "--all", "--cluster", "hostile.yaml"],
    "skew": ["skew", "-f", "hostile.yaml"],
    "cel": ["cel", "eval", "taint.key == 'a'", "-f", "hostile.yaml"],
    "kubeconfig": ["explain", "pod/p", "--kubeconfig", "hostile.yaml"],
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    (tmp_path / "node.json").write_text(json.dumps(NODE))
    return tmp_path


def refused_or_answered(command: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Run a command, hold its exit code and words to what is promised, and return how many functions it called."""
    with counting_calls() as calls:
        code = run(command)
    captured = capsys.readouterr()
    assert code in (FINE, FINDINGS, USAGE, CANNOT_SAY), (command, code, captured.err[-500:])
    assert "Traceback" not in captured.err and "internal error" not in captured.err, captured.err[-500:]
    if code == USAGE or (code == CANNOT_SAY and not captured.out):
        assert len(captured.err.splitlines()) == 1, captured.err[-500:]
    return calls.number


@table
@pytest.mark.parametrize("command, name", sample(product(COMMANDS, BIG), 12))  # prime to the number of texts
def test_hostile_text_is_refused_or_answered_in_time(here, capsys, command, name):
    (here / "hostile.yaml").write_bytes(BIG[name])
    assert refused_or_answered(COMMANDS[command], capsys) < MOST_CALLS


@table
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_wrong_types_anywhere_end_in_one_line(here, capsys, command, part):
    every = 50 if command[0] == "skew" else 5  # which simulates ten clusters for each question
    for name, items in sample(list(odd_objects())[part::every], 61, command[-1]):
        (here / "hostile.yaml").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
        assert refused_or_answered(command, capsys) < MOST_CALLS, name


@table
@pytest.mark.parametrize("name", BIG)
def test_hostile_stories_and_configurations_are_refused_in_time(here, name):
    text, file = BIG[name], here / "hostile.yaml"
    file.write_bytes(text)
    readable = text.decode("utf-8", "replace")
    readers = [
        lambda: parse_story(text, "story.yaml"),
        lambda: parse_policy(readable),
        lambda: parse(readable),
        lambda: read_event_limits(file),
        lambda: load(file),
    ]
    errors = (ManifestError, StoryError, ConfigurationError, PluginError, KubeconfigError, ValueError)
    for read in sample(readers, len(readers), name):
        with pytest.raises(errors) as refused, counting_calls() as calls:
            read()
        assert "\n" not in str(refused.value)
        assert calls.number < MOST_CALLS


def test_the_c_stack_is_not_the_readers():
    """A text that overflowed the C stack ended the process; a process of its own says whether it still does."""
    text = '{"}": ' * 100_000
    script = "import sys\nfrom weir.objects.manifest import read_manifest\nread_manifest(sys.stdin.read())"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nested more than 200 levels deep" in done.stderr


def test_every_yaml_text_is_read_within_bounds():
    """Only weir.objects.yaml_reader, whose events are counted, makes a parser."""
    makers = re.compile(
        r"yaml\.(?:safe_|full_|unsafe_)?(?:load|load_all|compose|compose_all|parse|scan)\(|Loader\("
    )
    found = [str(path) for path in SOURCE.rglob("*.py") if makers.search(path.read_text())]
    assert [Path(each).name for each in found] == ["yaml_reader.py"]
