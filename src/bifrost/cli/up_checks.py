"""What `bifrost up` refuses before it starts anything: another shape of cluster, ports that are taken, settings that
would be the same for nodes which must differ."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import typer

from bifrost.cli.failure import fail
from bifrost.realm import record
from bifrost.realm.plan import HOST, PlannedNode, Shape

_EACH_ITS_OWN: Final = {
    "node.id": "nodes are numbered from 0, Odins from 100",
    "broker.id": "nodes are numbered from 0, Odins from 100",
    "process.roles": "--brokers and --odins say how many of each there are",
    "listeners": "--port says where the ports start",
    "advertised.listeners": "--port says where the ports start",
    "http.listener": "--port says where the ports start",
    "controller.listener.names": "--port says where the ports start",
    "controller.quorum.voters": "--odins says how many vote",
    "controller.quorum.bootstrap.servers": "--odins says how many vote",
    "log.dir": "--data says where all of them keep their data",
    "log.dirs": "--data says where all of them keep their data",
    "metadata.log.dir": "--data says where all of them keep their data",
}


def shape_meant(brokers: int, odins: int | None) -> Shape:
    """The cluster that was asked for, if there can be such a one."""
    try:
        return Shape.of(brokers, odins)
    except ValueError as error:
        fail(error, code=2)


def check_settings(named: Mapping[str, str], shape: Shape) -> None:
    """Refuse what every node needs for itself."""
    if shape.is_one_node:
        return
    for name in named:
        if name in _EACH_ITS_OWN:
            hint = "`bifrost server` runs single nodes with settings of their own; --brokers 1 is one node."
            fail(f"--set {name}: it cannot be the same for {shape}; {_EACH_ITS_OWN[name]}", hint=hint, code=2)


def check_data(data: Path, shape: Shape) -> str | None:
    """Refuse data that belong to another kind of cluster; returns a remark if they are only of more brokers."""
    found = record.shape_of(data)
    if found is None or found == shape == Shape(1, 0):
        return None
    if found.is_one_node or shape.is_one_node or found.odins != shape.odins:
        again = "--brokers 1" if found.is_one_node else f"--brokers {found.brokers} --odins {found.odins}"
        fail(
            f"the data in {data} are those of {found}, and cannot be opened by {shape}",
            hint=f"Run `bifrost up {again}` to use them, or give --data for a directory of its own.",
            code=2,
        )
    started = {f"heimdall-{index}" for index in range(shape.brokers)}
    left = sorted(each.name for each in data.glob("heimdall-*") if each.name not in started)
    return f"{', '.join(left)} of before: not started, and what only they hold cannot be read" if left else None


def check_nobody_runs(data: Path) -> None:
    """Refuse to start beside those that use the same data."""
    pid = record.supervisor(data)
    if pid is not None:
        fail(
            f"a cluster runs on {data} already (process {pid})",
            hint=f"See it with `bifrost status --data {data}`, stop it with `bifrost down --data {data}`.",
            code=1,
        )


def check_ports(nodes: Sequence[PlannedNode]) -> None:
    """Refuse ports that others have, all of them in one sentence."""
    wanted = [(address, node.name) for node in nodes for address in (node.address, node.settings.get("http.listener"))]
    taken = [f"{address} ({name})" for address, name in wanted if address and _is_taken(address)]
    if taken:
        verb = "is" if len(taken) == 1 else "are"
        fail(
            f"{', '.join(taken)} {verb} taken by another program",
            hint="Stop that one, or choose other ports: --port 19092, or --port 0 for any that are free.",
            code=1,
        )


def check_values(nodes: Sequence[PlannedNode]) -> None:
    """Refuse settings that no node would take; what there is to note is said once, not by every node."""
    from bifrost.settings import parse_settings

    notes: dict[str, None] = {}
    for node in nodes:
        try:
            notes |= dict.fromkeys(parse_settings(node.settings)[1])
        except ValueError as error:
            fail("\nerror: ".join(str(error).splitlines()), code=2)
    for note in notes:
        typer.secho(f"note: {note}", dim=True, err=True)


def _is_taken(address: str) -> bool:
    port = int(address.rpartition(":")[2])
    if port == 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)  # one that is only reserved may be bound, and is free until somebody listens
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
