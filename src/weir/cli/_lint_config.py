"""Project settings of lint: `[tool.weir.lint]` in pyproject.toml, or `lint:` in .weir.yaml.

The nearest of the two files counts, from the current folder upwards; .weir.yaml before pyproject.toml. The command
line overrides.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import click

from weir.client.cluster_gates import SINCE
from weir.fields.documents import closest
from weir.gates import FEATURES, GateError, parse_settings
from weir.lint.check import UnknownRule, named_rules
from weir.lint.rule import Severity
from weir.objects.manifest import ManifestError, read_document

NAMES: Final = (".weir.yaml", "pyproject.toml")
_VERSION: Final = re.compile(r"v?1\.(\d+)(?:\.\d+)?\Z")


@dataclass(frozen=True)
class LintConfig:
    """The settings of a project; keys are spelt with hyphens there."""

    paths: tuple[str, ...] = ()  #: what to check when nothing is named
    exclude: tuple[str, ...] = ()  #: files to leave out, as patterns
    rules: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    level: str = ""
    levels: Mapping[str, Severity] = field(default_factory=dict)  #: by the code of a rule
    strict: bool = False
    kubernetes_version: str = ""
    feature_gates: str = ""
    target: str = ""  #: native or stock


def find_config(folder: Path) -> LintConfig:
    """Return the settings of the project that *folder* is in; a file that cannot be used is one clear line."""
    for place in (folder, *folder.parents):
        for name in NAMES:
            path = place / name
            if path.is_file() and (section := _section(path)) is not None:
                return _config(section, path)
    return LintConfig()


def version_gates(version: str) -> dict[str, bool]:
    """Return the gates that a version of Kubernetes cannot have, as settings.

    >>> version_gates("1.34")["TaintTolerationComparisonOperators"]
    False
    """
    match = _VERSION.match(version)
    if match is None:
        raise click.UsageError(f"{version!r} is no version of Kubernetes: write it like 1.35")
    return {name: False for name in FEATURES if SINCE.get(name, 0) > int(match.group(1))}


def _section(path: Path) -> Any:
    """Return the part of a file that is lint's, or None when it has none."""
    try:
        if path.suffix == ".toml":
            settings: Any = tomllib.loads(path.read_text()).get("tool", {})
            return settings.get("weir", {}).get("lint")
        settings = read_document(path.read_bytes(), str(path))
        return settings.get("lint", {}) if isinstance(settings, dict) else {}
    except ManifestError as error:
        raise click.UsageError(f"{error.place}: cannot be read: {error.problem}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError, RecursionError) as error:
        raise click.UsageError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None


def _config(section: Any, path: Path) -> LintConfig:
    def wrong(key: str, expected: str) -> click.UsageError:
        return click.UsageError(f"{path}: {key}: {expected}")

    if not isinstance(section, dict):
        raise wrong("lint", "must be a mapping of settings")
    known = {each.name.replace("_", "-"): each.name for each in fields(LintConfig)}
    given: dict[str, Any] = {}
    for key, value in section.items():
        if key not in known:
            meant = closest(str(key), known)
            raise wrong(str(key), f"unknown setting{f'; did you mean {meant}?' if meant else ''}")
        given[known[key]] = value
    for name in ("paths", "exclude", "rules", "ignore"):
        if name in given:
            value = [given[name]] if isinstance(given[name], str) else given[name]
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise wrong(name, "must be a list of texts")
            given[name] = tuple(value)
    if "paths" in given:
        given["paths"] = tuple(str(path.parent / each) for each in given["paths"])
    for name in ("level", "kubernetes_version", "feature_gates", "target"):
        if name in given and not isinstance(given[name], str):
            raise wrong(name.replace("_", "-"), 'must be a text; write it in quotes, like "1.35"')
    if "strict" in given and not isinstance(given["strict"], bool):
        raise wrong("strict", "must be true or false")
    severities = {each.value: each for each in Severity}
    if given.get("level") and given["level"] not in severities:
        raise wrong("level", f"must be one of {', '.join(severities)}")
    if given.get("target") not in (None, "native", "stock"):
        raise wrong("target", "must be native or stock")
    try:
        given["levels"] = _levels(given.get("levels", {}), severities)
        named_rules([*given.get("rules", ()), *given.get("ignore", ())])
        parse_settings(given.get("feature_gates", ""))
    except (UnknownRule, GateError, ValueError) as error:
        raise click.UsageError(f"{path}: {error}") from None
    return LintConfig(**given)


def _levels(value: Any, severities: Mapping[str, Severity]) -> dict[str, Severity]:
    if not isinstance(value, dict) or not all(each in severities for each in value.values()):
        raise ValueError(f"levels: must give a rule one of {', '.join(severities)}, like W012: error")
    return {named_rules([str(name)])[0].code: severities[each] for name, each in value.items()}
