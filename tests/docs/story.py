"""One page, told from its first block to its last: a broker, a directory, a shell and a Python of its own.

A page may start a cluster itself (`bifrost up`); from there on that one is meant. Pages speak of port 9092, and of 9093
and so on for further brokers, and of 9644 for HTTP, which only one process can have: the nodes' own ports take their
place in whatever is run, and the other way round in whatever was printed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tomllib
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from bifrost.settings import parse_properties, parse_settings
from bifrost.testing import Cluster
from tests.docs.blocks import ROOT, BadPage, Block
from tests.docs.processes import Foreground, Python, Shell, TookTooLong
from tests.docs.shown import difference

PORT = 9092
HTTP_PORT = 9644
PLUGIN = "bifrost.testing.plugin"
INTERRUPT = "^C"
_OURS = ("BIFROST_", "PYTEST_")
_CI = {"CI", "BUILD_NUMBER"}
"""Where one of these is set, pytest prints more than a reader of the page sees."""
_SERVES = re.compile(r"bifrost\s+(up|server)\b")
_READY = re.compile(r"^ready bootstrap=(\S+)(?: http=\S+:(\d+))?$", re.MULTILINE)
_TEST = re.compile(r"^(async )?def test_", re.MULTILINE)


class WrongPage(Exception):
    """A block did not do what its page says."""

    def __init__(self, block: Block, trouble: str) -> None:
        super().__init__(f"{block.place}: {trouble}")


class Story:
    """Tells blocks in their order. Use as a context manager, and `finish` when all are told."""

    def __init__(self, scratch: Path) -> None:
        self._directory = scratch / "page"
        self._scratch = scratch / "scratch"
        for each in (self._directory, self._scratch):
            each.mkdir(parents=True)
        self._cluster = Cluster(num_partitions=3, group_initial_rebalance_delay_ms=0)
        self._server: Foreground | None = None
        self._http_port: str | None = None
        self._shell: Shell | None = None
        self._python: Python | None = None
        self._files: dict[str, Block] = {}
        self._printed: str | None = None
        """By the Python block before, if it was one."""

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        self._address = self._cluster.bootstrap
        return self

    def __exit__(self, *_: object) -> None:
        data = self._directory / "bifrost-data"
        if (data / "cluster.json").exists() and self._shell is not None:
            self._shell.run("bifrost down --timeout 10")  # a page that failed half-way left it running
        for each in (self._server, self._shell, self._python):
            if each is not None:
                each.close()
        self._cluster.close()

    def tell(self, block: Block) -> None:
        """Run, compare or read a block; raises WrongPage."""
        printed, self._printed = self._printed, None
        try:
            if block.reason is not None:
                return
            if block.is_output:
                self._compare_output(block, printed)
            elif block.kind == "console":
                self._console(block)
            elif block.kind == "bash":
                self._command(block, f"bash -euo pipefail -c {shlex.quote(block.text)}", "")
            elif block.kind in {"python", "pycon"}:
                self._run_python(block)
            else:
                self._read(block)
        except TookTooLong as error:
            raise WrongPage(block, str(error)) from None

    def finish(self) -> None:
        """Run the files that no command of the page ran, and see everything end as it should."""
        for name, block in list(self._files.items()):
            if name.endswith(".py") and not name.endswith("conftest.py"):
                runner = "pytest -q" if _TEST.search(block.text) else "python"
                self._command(block, f"{runner} {shlex.quote(name)}", "")
        if self._python is not None:
            self._python.finish()
        self._stop_server()

    # Files

    def _read(self, block: Block) -> None:
        try:
            if block.kind == "toml":
                tomllib.loads(block.text)
            elif block.kind == "json":
                _read_json(block.text)
            elif block.kind == "properties":
                parse_settings(parse_properties(block.text))
        except ValueError as error:
            raise WrongPage(block, f"cannot be read as {block.kind}: {error}") from None
        if block.file is not None:
            self._write(block)

    def _write(self, block: Block) -> None:
        assert block.file is not None
        path = self._directory / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._actual(block.text), encoding="utf-8")
        self._files[block.file] = block

    # Python

    def _run_python(self, block: Block) -> None:
        if block.file is not None:
            self._write(block)
            return
        if _TEST.search(block.text):
            name = f"test_line_{block.line}.py"
            (self._directory / name).write_text(self._actual(block.text), encoding="utf-8")
            self._command(block, f"pytest -q {name}", "")
            return
        if self._python is None:
            self._python = Python(self._directory, self._environment())
        kind = "pycon" if block.text.lstrip().startswith(">>> ") else block.kind
        request = {
            "kind": kind,
            "page": str(ROOT / block.page),
            "line": block.line,
            "code": self._actual(block.text),
            "environment": {"BIFROST_BOOTSTRAP": self._address},
        }
        printed, trouble = self._python.run(request)
        if trouble is not None:
            raise WrongPage(block, f"{trouble}\n{printed}")
        self._printed = printed

    def _compare_output(self, block: Block, printed: str | None) -> None:
        if printed is None:
            raise BadPage(f"{block.place}: an output belongs directly below the Python that prints it")
        trouble = difference(block.text, self._as_told(printed))
        if trouble is not None:
            raise WrongPage(block, f"it prints something else:\n{trouble}")

    # Commands

    def _console(self, block: Block) -> None:
        for command, shown in transcript(block):
            if command == INTERRUPT:
                self._stop_server()
            elif _SERVES.match(command) and INTERRUPT not in shown.split():
                self._serve(block, command, shown)
            elif shown.rstrip().endswith(INTERRUPT):
                self._follow(block, command, shown.rstrip().removesuffix(INTERRUPT))
            else:
                self._command(block, command, shown)

    def _command(self, block: Block, command: str, shown: str) -> None:
        if self._shell is None:
            self._shell = Shell(self._directory, self._scratch, self._environment())
        for name in list(self._files):
            if name in command or ("pytest" in command and _TEST.search(self._files[name].text)):
                del self._files[name]
        code, printed = self._shell.run(self._actual(command))
        fails = re.search(r"^(error:|Traceback|FAILED)", shown, re.MULTILINE) is not None
        if fails != (code != 0):
            raise WrongPage(block, f"exit code {code} of {command}\n{printed}")
        if shown.strip():
            trouble = difference(shown, self._as_told(printed))
            if trouble is not None:
                raise WrongPage(block, f"{command} prints something else:\n{trouble}")

    def _follow(self, block: Block, command: str, shown: str) -> None:
        """Until it has printed what the page shows; then Ctrl-C."""
        follower = self._start(command, "follower")
        try:
            if not follower.wait_until(lambda printed: difference(shown, self._as_told(printed)) is None):
                trouble = difference(shown, self._as_told(follower.printed()))
                raise WrongPage(block, f"{command} prints something else:\n{trouble}")
            follower.interrupt()
            if "Traceback" in follower.printed():
                raise WrongPage(block, f"Ctrl-C of {command}:\n{follower.printed()}")
        finally:
            follower.close()

    def _serve(self, block: Block, command: str, shown: str) -> None:
        """From here on the page's own broker is meant."""
        self._stop_server()
        place = "--port 0" if " up" in command else "--set listeners=PLAINTEXT://127.0.0.1:0"
        self._server = server = self._start(f"exec {command} {place}", "server")
        if not server.wait_until(lambda printed: _READY.search(printed) is not None):
            raise WrongPage(block, f"{command} does not serve:\n{server.printed()}")
        ready = _READY.search(server.printed())
        assert ready is not None
        self._address, self._http_port = ready[1], ready[2]
        if self._shell is not None:
            self._shell.set("BIFROST_BOOTSTRAP", self._address)
        so_far = ready.string[: ready.end()]  # what it logs later is a matter of the moment
        trouble = difference(shown, self._as_told(so_far)) if shown.strip() else None
        if trouble is not None:
            raise WrongPage(block, f"{command} prints something else:\n{trouble}")

    def _start(self, command: str, name: str) -> Foreground:
        output = self._scratch / name
        return Foreground(self._actual(command), self._directory, output, self._environment())

    def _stop_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            code = server.interrupt()
            server.close()
            if code != 0:
                raise TookTooLong(f"{server.command} ended with {code}:\n{server.printed()}")

    # What differs between the reader's terminal and this one

    def _actual(self, text: str) -> str:
        for told, actual in self._ports().items():
            text = re.sub(rf"(?<=:){told}\b", actual, text)
        return text

    def _as_told(self, printed: str) -> str:
        for told, actual in self._ports().items():
            printed = re.sub(rf"\b{actual}\b", told, printed)
        return printed.replace(str(self._directory), "/home/you")

    def _ports(self) -> dict[str, str]:
        """The ports that pages speak of, and those that they stand for."""
        actual = [address.rpartition(":")[2] for address in self._address.split(",")]
        ports = {str(PORT + index): port for index, port in enumerate(actual)}
        return ports if self._http_port is None else {**ports, str(HTTP_PORT): self._http_port}

    def _environment(self) -> dict[str, str]:
        """This process's, less what would colour or redirect, with the sources and tools under test in front."""
        tools = self._scratch / "bin"
        if not tools.exists():
            _make_tools(tools)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS) and name not in _CI}
        return {
            **kept,
            "PATH": os.pathsep.join([str(tools), str(Path(sys.executable).parent), kept.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self._directory),
            "XDG_CONFIG_HOME": str(self._directory / ".config"),
            "BIFROST_BOOTSTRAP": self._address,
            "COLUMNS": "120",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }


def transcript(block: Block) -> list[tuple[str, str]]:
    """The commands of a terminal's transcript, each with the lines shown below it."""
    found: list[tuple[str, str]] = []
    unfinished = False
    for number, line in enumerate(block.text.splitlines()):
        if unfinished:
            command, _ = found[-1]
            found[-1] = (f"{command}\n{line.removeprefix('> ')}", "")
        elif line.startswith("$ "):
            found.append((line.removeprefix("$ "), ""))
        elif line == INTERRUPT and (not found or found[-1][0] == INTERRUPT):
            found.append((INTERRUPT, ""))
        elif not found:
            raise BadPage(f"{block.page}:{block.line + number}: a transcript begins with `$ command`")
        else:
            command, shown = found[-1]
            found[-1] = (command, f"{shown}{line}\n")
        last = found[-1][0]
        unfinished = last.endswith("\\") or _open_document(last)
    return found


def _open_document(command: str) -> bool:
    """Whether a here-document has begun and not ended."""
    begun = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", command)
    return begun is not None and begun[1] not in command.splitlines()[1:]


def _read_json(text: str) -> None:
    """One value, or one a line."""
    try:
        json.loads(text)
    except ValueError:
        for line in text.splitlines():
            json.loads(line)


def _plugin() -> str:
    """Our own plugin of pytest, where the sources have it and what is installed does not know of it yet."""
    known = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    return "" if known or find_spec(PLUGIN) is None else f"-p {PLUGIN}"


def _make_tools(folder: Path) -> None:
    """`bifrost`, `python`, `pytest` and `make` as a reader has them once it is installed."""
    folder.mkdir()
    python = shlex.quote(sys.executable)
    make = f"make -C {shlex.quote(str(ROOT))} -o .venv/.ready BIN={shlex.quote(str(Path(sys.executable).parent))}"
    commands = {
        "bifrost": f"{python} -m bifrost",
        "python": python,
        "python3": python,
        "pytest": f"{python} -m pytest -p no:cacheprovider {_plugin()}",
        "make": f"env PATH={shlex.quote(os.environ.get('PATH', os.defpath))} {make}",
    }
    for name, command in commands.items():
        tool = folder / name
        tool.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        tool.chmod(0o755)
