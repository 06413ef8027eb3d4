"""The image of the Containerfile without a container runtime: its files as a root file system, its user, its command.

A container is played by what Linux has for it: a mount namespace with the image as a read-only root, a process
namespace, no new privileges, and the image's user. The image is what the last stage of the Containerfile holds: Python
as the base image has it, and a venv with weir and the distributions that it requires, nothing else of this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[1]
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
#: What the tests of Python itself and its own installer hold is in no way of a program.
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "test", "tests", "idlelib", "site-packages", "ensurepip", "*.a"
)


def instructions(containerfile: Path = ROOT / "Containerfile") -> list[tuple[str, str]]:
    """Return the instructions of a Containerfile in their order, each as a word and the rest."""
    text = containerfile.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def last_stage() -> list[tuple[str, str]]:
    """Return the instructions from the last FROM on."""
    every = instructions()
    return every[max(number for number, (word, _) in enumerate(every) if word == "FROM") :]


def why_not() -> str:
    """Return why this machine cannot play a container, "" where it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"a container cannot be played without {missing[0]}"
    tried = subprocess.run([*_NAMESPACES, "true"], capture_output=True, text=True, timeout=60, check=False)
    return f"a container cannot be played: {tried.stderr.strip()}" if tried.returncode else ""


TOOLS: Final = ("env", "ldd", "mount", "setpriv", "sh", "unshare")
DEVICES: Final = ("null", "zero", "urandom", "random")
_NAMESPACES: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")


@dataclass
class Image:
    """A root file system with the settings of the Containerfile's last stage."""

    root: Path
    user: str = "0:0"
    environment: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    volumes: list[str] = field(default_factory=list)

    def command(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        mounts: Mapping[str, Path | None] | None = None,
        program: Sequence[str] = (),
    ) -> list[str]:
        """Return the command that runs the image's entry point, or *program*, as a container would.

        *mounts* are folders by where they appear, None for an empty one in memory.
        """
        user, _, group = self.user.partition(":")
        steps = [f"mount --bind {self.root} {self.root}"]
        places: dict[str, Path | None] = {**dict.fromkeys(self.volumes), **(mounts or {})}
        steps += [f"mkdir -p {self.root}{place}" for place in places]
        steps.append(f"mount -o remount,bind,ro {self.root}")
        steps += [f"mount --bind /dev/{device} {self.root}/dev/{device}" for device in DEVICES]
        steps.append(f"mount -t proc proc {self.root}/proc")
        for place, source in places.items():
            where = f"{self.root}{place}"
            if source is None:
                steps.append(f"mount -t tmpfs -o uid={user},gid={group},mode=700 tmpfs {where}")
            else:
                steps.append(f"mount --bind -o ro {source} {where}")
        names = {**self.environment, **(environment or {})}
        tools = {tool: shutil.which(tool) or tool for tool in TOOLS}
        run = [
            tools["env"], "-i", *(f"{name}={value}" for name, value in names.items()),
            tools["setpriv"], "--no-new-privs",
            tools["unshare"], f"--root={self.root}", f"--wd={self.directory}", f"--setgid={group}", f"--setuid={user}",
            *(program or self._entrypoint()), *arguments,
        ]  # fmt: skip
        steps.append(f"exec {shlex.join(run)}")
        return [*_NAMESPACES, "sh", "-ec", "\n".join(steps)]

    def _entrypoint(self) -> list[str]:
        (text,) = [rest for word, rest in last_stage() if word == "ENTRYPOINT"]
        program, *more = re.findall(r'"([^"]*)"', text)
        for folder in self.environment["PATH"].split(":"):
            if (self.root / folder.lstrip("/") / program).exists():
                return [f"{folder}/{program}", *more]
        raise AssertionError(f"{program} is nowhere in {self.environment['PATH']}")


def build(root: Path) -> Image:
    """Make the root file system that the Containerfile describes in an empty folder."""
    image = Image(root, environment={"PATH": "/usr/local/bin:/usr/bin:/bin"})
    for folder in ("dev", "proc", "tmp", "usr/local/bin", "usr/local/lib"):
        (root / folder).mkdir(parents=True)
    for device in DEVICES:
        (root / "dev" / device).touch()
    _base(root)
    for word, rest in last_stage():
        match word:
            case "COPY":
                assert rest == "--from=build /opt/weir /opt/weir", rest
                _venv(root / "opt" / "weir")
            case "ENV":
                for name, value in (each.split("=", 1) for each in shlex.split(rest)):
                    image.environment[name] = value.replace("$PATH", image.environment["PATH"])
            case "RUN":
                _run(root, rest)
            case "USER":
                image.user = rest
            case "WORKDIR":
                image.directory = rest
            case "VOLUME":
                image.volumes += rest.split()
            case "FROM" | "EXPOSE" | "ENTRYPOINT" | "CMD":
                pass
            case _:
                raise AssertionError(f"the tests do not know the instruction {word}")
    _libraries(root)
    return image


def _run(root: Path, text: str) -> None:
    """Do the commands of a RUN that make folders and give them away."""
    for part in text.split("&&"):
        program, *arguments = shlex.split(part)
        assert program in ("mkdir", "chown"), f"the tests do not know the command {program}"
        subprocess.run([program, *arguments[:-1], f"{root}{arguments[-1]}"], check=True, timeout=60)


def _link(source: str, target: str) -> None:
    """Copy a file without its content where that is possible: nothing writes into the image."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _base(root: Path) -> None:
    base = Path(sys.base_prefix)
    library = Path(os.__file__).parent
    shutil.copy2(base / "bin" / PYTHON, root / "usr/local/bin" / PYTHON)
    shutil.copytree(library, root / "usr/local/lib" / PYTHON, ignore=_LEFT_OUT, copy_function=_link)


def _required(name: str, extras: frozenset[str] = frozenset()) -> Iterator[Distribution]:
    """Yield the distribution *name* and all that it requires, as pip would install them."""
    from packaging.requirements import Requirement

    found = distribution(name)
    yield found
    for requirement in map(Requirement, found.requires or ()):
        wanted = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in (*extras, "")
        )
        if wanted:
            yield from _required(requirement.name, frozenset(requirement.extras))


def _venv(venv: Path) -> None:
    """Make the venv of the build stage: weir, the extras it is installed with, and what these require."""
    (install,) = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    extras = re.search(r"'\.\[(.*)\]'", install)
    assert extras is not None, install
    packages = venv / "lib" / PYTHON / "site-packages"
    packages.mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(f"/usr/local/bin/{PYTHON}")
    (venv / "pyvenv.cfg").write_text("home = /usr/local/bin\ninclude-system-site-packages = false\n")
    own, *others = _required("weir-k8s", frozenset(extras.group(1).split(",")))
    for each in {other.metadata["Name"]: other for other in others}.values():
        for file in each.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = packages / str(file)
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(str(each.locate_file(file)), str(target))
    shutil.copytree(
        ROOT / "src" / "weir",
        packages / "weir",
        ignore=shutil.ignore_patterns("__pycache__"),
        copy_function=_link,
    )
    for script in own.entry_points.select(group="console_scripts"):
        call = f"import sys\nfrom {script.module} import {script.attr}\nsys.exit({script.attr}())\n"
        (venv / "bin" / script.name).write_text(f"#!/opt/weir/bin/python\n{call}")
        (venv / "bin" / script.name).chmod(0o755)
    metadata = [file for file in own.files or () if file.name in ("METADATA", "entry_points.txt")]
    for file in metadata:
        (packages / str(file)).parent.mkdir(exist_ok=True)
        _link(str(own.locate_file(file)), str(packages / str(file)))


def _libraries(root: Path) -> None:
    """Give the root the shared libraries that programs and extension modules in it name, at their places."""
    binaries = [root / "usr/local/bin" / PYTHON, *root.rglob("*.so"), *root.rglob("*.so.*")]
    text = subprocess.run(
        ["ldd", *map(str, binaries)], capture_output=True, text=True, timeout=300, check=False
    ).stdout
    for name in set(re.findall(r"(?:=>\s+|^\s+)(/\S+) \(0x", text, re.M)):
        target = root / name.lstrip("/")
        if not name.startswith(f"{root}/") and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, target)
