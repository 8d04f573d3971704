"""A network of the kernel's own between nodes: each in a network namespace, all of them on one bridge.

What `links.py` plays with a proxy is done here to packets: a cut link loses them, in one direction if so asked, and
TCP has to find out. Clients are on the bridge themselves and reach every node, unless its cable is pulled.

- *cut*: the source is told a hardware address for the target that nobody has. What it sends is lost, and what it is
  sent arrives. That needs no packet filter, and answers nobody: a filter or a route might refuse instead of losing.
- *narrow*: what goes from the source to the target queues for a line of so many bits a second (`tc htb`).
- *slow*: it is late (`tc netem`, which not every kernel has).

Needs root and iproute2; where that is not to be had, `Namespaces` skips the test, with the reason.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

NOBODY = "02:00:00:00:00:00"
_DEVICE = "eth0"
_CLONE_NEWNET = 0x40000000
_FIRST_HOST = 10
_OURS = re.compile(r"bifrost-(\d+)-")
_PATIENCE_S = 30.0


class Passed(NamedTuple):
    """What has gone through a line of its own."""

    bytes: int
    waits: int
    """How often something had to wait for the line."""


class Namespaces:
    """One for each node, from `__enter__` to `__exit__`. Nodes are known by their ids."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self._nodes = tuple(nodes)
        self._bridge = f"bf{os.getpid()}"
        self._net = ""
        self._shaped: dict[int, list[int]] = {}
        """The ways out of each node that were slowed: where they lead."""

    def __enter__(self) -> Self:
        why = why_not()
        if why is not None:
            pytest.skip(why)
        _sweep()
        self._net = _free_net()
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    # Who is where.

    def name(self, node: int) -> str:
        return f"bifrost-{os.getpid()}-{node}"

    def address(self, node: int) -> str:
        return f"{self._net}.{_FIRST_HOST + self._nodes.index(node)}"

    def enter(self, node: int) -> tuple[str, ...]:
        """What to put before a command so that it runs there."""
        return ("ip", "netns", "exec", self.name(node))

    # What is done to it.

    def cut(self, source: int, target: int) -> None:
        """Nothing that `source` says reaches `target` any more; the other direction stays as it is."""
        self._inside(
            source, "neigh", "replace", self.address(target), "lladdr", NOBODY, "dev", _DEVICE, "nud", "permanent"
        )

    def part(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Cut every link between two parties, both ways."""
        for source, target in {(a, b) for a in some for b in others if a != b}:
            self.cut(source, target)
            self.cut(target, source)

    def narrow(self, source: int, target: int, kbit_per_s: int) -> None:
        """What `source` sends to `target` has a line of its own, and waits for it."""
        self._line(source, target, f"{kbit_per_s}kbit")

    def slow(self, source: int, target: int, delay_s: float) -> None:
        """Every packet from `source` to `target` takes so long. Skips the test where the kernel cannot do that."""
        line = self._line(source, target, "1gbit")
        late = ("netem", "delay", f"{delay_s * 1000:.0f}ms")
        made = _try("tc", "-n", self.name(source), "qdisc", "add", "dev", _DEVICE, "parent", line, *late)
        if made.returncode != 0:
            pytest.skip(f"this kernel cannot make packets late (tc netem): {made.stderr.strip()}")

    def _line(self, source: int, target: int, rate: str) -> str:
        """Makes a class of its own for what goes there, and returns its name; what else is sent is not touched."""
        where = ("dev", _DEVICE)
        if source not in self._shaped:
            self._traffic(source, "qdisc", "add", *where, "root", "handle", "1:", "htb")
        self._shaped.setdefault(source, []).append(target)
        line = f"1:{len(self._shaped[source]):x}"
        self._traffic(source, "class", "add", *where, "parent", "1:", "classid", line, "htb", "rate", rate)
        match = ("u32", "match", "ip", "dst", f"{self.address(target)}/32", "flowid", line)
        self._traffic(source, "filter", "add", *where, "parent", "1:", "protocol", "ip", "prio", "1", *match)
        return line

    def passed(self, source: int, target: int) -> Passed:
        """On the line of its own that the way has, as the kernel counts."""
        line = f"1:{self._shaped[source].index(target) + 1:x}"
        told = _run("tc", "-n", self.name(source), "-s", "class", "show", "dev", _DEVICE)
        found = re.search(rf"class htb {line} .*?Sent (\d+) bytes.*?overlimits (\d+)", told, re.DOTALL)
        assert found is not None, told
        return Passed(int(found[1]), int(found[2]))

    def seconds_to_connect(self, source: int, target: int, port: int) -> float:
        """How long a packet takes there, and its answer back."""
        started = time.monotonic()
        self.inside(source, lambda: socket.create_connection((self.address(target), port), _PATIENCE_S)).close()
        return time.monotonic() - started

    def inside(self, node: int, make: Callable[[], socket.socket]) -> socket.socket:
        """A socket of a node's namespace, which it keeps; a thread that moves there makes it, and ends."""
        made: list[socket.socket | BaseException] = []

        def work() -> None:
            try:
                with open(f"/run/netns/{self.name(node)}") as namespace:
                    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                        raise OSError(ctypes.get_errno(), "setns")
                made.append(make())
            except BaseException as error:
                made.append(error)
                raise

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        (found,) = made
        assert isinstance(found, socket.socket), found
        found.settimeout(10)
        return found

    def pull(self, node: int) -> None:
        """Its cable: nobody reaches it, clients included, and it reaches nobody."""
        _run("ip", "link", "set", self._port(node), "down")

    def heal(self) -> None:
        """Everything passes again; what was lost is for TCP to repeat."""
        for node in self._nodes:
            _run("ip", "link", "set", self._port(node), "up")
            self._inside(node, "neigh", "flush", "dev", _DEVICE, "nud", "permanent")
        for node in self._shaped:
            self._traffic(node, "qdisc", "del", "dev", _DEVICE, "root")
        self._shaped.clear()

    # Inside.

    def _build(self) -> None:
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self._net}.1/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for node in self._nodes:
            port = self._port(node)
            _run("ip", "netns", "add", self.name(node))
            _run("ip", "link", "add", port, "type", "veth", "peer", "name", _DEVICE, "netns", self.name(node))
            _run("ip", "link", "set", port, "master", self._bridge, "up")
            self._inside(node, "address", "add", f"{self.address(node)}/24", "dev", _DEVICE)
            for device in ("lo", _DEVICE):
                self._inside(node, "link", "set", device, "up")

    def _remove(self) -> None:
        """Whatever is there of it; the other ends of the cables go with their namespaces."""
        for node in self._nodes:
            _try("ip", "netns", "delete", self.name(node))
            _try("ip", "link", "delete", self._port(node))
        _try("ip", "link", "delete", self._bridge)

    def _port(self, node: int) -> str:
        return f"{self._bridge}-{node}"  # names of devices have 15 letters at most

    def _inside(self, node: int, *words: str) -> None:
        _run("ip", "-n", self.name(node), *words)

    def _traffic(self, node: int, *words: str) -> None:
        _run("tc", "-n", self.name(node), *words)


def why_not() -> str | None:
    """Why there are no network namespaces here; None if there are."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"no network namespaces: no `{tool}` here (Debian package iproute2)"
    name = f"bifrost-{os.getpid()}-probe"
    made = _try("ip", "netns", "add", name)
    _try("ip", "netns", "delete", name)
    return None if made.returncode == 0 else f"no network namespaces: {made.stderr.strip()}"


def _sweep() -> None:
    """What runs left behind that were killed before they could clean up."""
    for entry in json.loads(_run("ip", "-j", "netns", "list") or "[]"):
        owner = _OURS.match(entry["name"])
        if owner is not None and not Path("/proc", owner[1]).exists():
            _try("ip", "netns", "delete", entry["name"])
            _try("ip", "link", "delete", f"bf{owner[1]}")


def _free_net() -> str:
    """A /24 of those that no network on earth has, since they are for measurements alone (RFC 2544)."""
    taken = {one["local"].rsplit(".", 1)[0] for link in _addresses() for one in link["addr_info"] if "local" in one}
    wanted = (f"198.{18 + number // 256 % 2}.{number % 256}" for number in range(os.getpid(), os.getpid() + 512))
    return next(net for net in wanted if net not in taken)


def _addresses() -> list[Any]:
    found: list[Any] = json.loads(_run("ip", "-j", "address", "show"))
    return found


def _run(*command: str) -> str:
    done = _try(*command)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
    return done.stdout


def _try(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
