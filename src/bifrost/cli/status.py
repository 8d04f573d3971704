"""`bifrost status`: what `bifrost up` runs here, and how it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from bifrost.cli.options import Json
from bifrost.cli.output import print_json, print_table
from bifrost.cli.up import DATA, Data

if TYPE_CHECKING:
    from pathlib import Path

    from bifrost.realm.record import ClusterRecord, NodeRecord

_ANSWER_S = 3.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node, as its process and its cluster tell."""

    id: int
    name: str
    roles: tuple[str, ...]
    address: str
    pid: int | None
    alive: bool
    state: str
    since_ms: int
    restarts: int
    active: bool | None
    """Whether it is the Odin that decides; None for those that are no Odin, or if nobody could tell."""
    fenced: bool | None
    """Whether the cluster counts it out; None for those that are no broker, or if nobody could tell."""
    http: str | None
    """Where it speaks HTTP; None for those that do not."""


@dataclass(frozen=True, slots=True)
class Status:
    """The cluster of a directory."""

    running: bool
    bootstrap: str | None
    http: str | None
    """Of an Odin that answers; None if none does."""
    supervisor: int | None
    active_odin: int | None
    nodes: tuple[NodeStatus, ...]


def status(data: Data = DATA, as_json: Json = False) -> None:
    """Show the cluster that `bifrost up` runs here.

    Every node: whether it lives and since when, which Odin is active, which brokers are fenced. Ends with exit code 1
    if not all nodes are up.

    \b
    $ bifrost status
    $ bifrost status --data /srv/bifrost --json | jq -r '.nodes[] | select(.alive | not).name'
    """
    found = look(data)
    if as_json:
        print_json(found)
    elif not found.nodes:
        typer.echo(f"nothing runs on {data}")
    else:
        _show(data, found)
    if not found.running or not all(node.alive and not node.fenced for node in found.nodes):
        raise typer.Exit(1)


def look(data: Path) -> Status:
    """Asks files, locks and the nodes themselves; starts and changes nothing."""
    from bifrost.realm import record

    supervisor, cluster = record.supervisor(data), record.read(data)
    if cluster is None:
        return Status(False, None, None, supervisor, None, ())
    alive = {node.name: _process(data, node, cluster, supervisor) for node in cluster.nodes}
    active, answering = _ask_odins([node for node in cluster.nodes if alive[node.name] is not None])
    live = _unfenced(cluster) if any(alive.values()) else None

    def state(node: NodeRecord) -> NodeStatus:
        pid = alive[node.name]
        is_odin = "controller" in node.roles
        return NodeStatus(
            id=node.id,
            name=node.name,
            roles=node.roles,
            address=node.address,
            pid=pid,
            alive=pid is not None,
            state=node.state if supervisor is not None else "left behind" if pid is not None else "gone",
            since_ms=node.since_ms,
            restarts=node.restarts,
            active=active == node.id if is_odin and active is not None else None,
            fenced=node.id not in live if node.is_broker and live is not None else None,
            http=node.http,
        )

    http = None if answering is None else answering.http
    return Status(supervisor is not None, cluster.bootstrap, http, supervisor, active, tuple(map(state, cluster.nodes)))


def _process(data: Path, node: NodeRecord, cluster: ClusterRecord, supervisor: int | None) -> int | None:
    """The supervisor knows; when it is gone, the lock that a node holds does."""
    from bifrost.realm import record

    if supervisor is not None and supervisor == cluster.supervisor:
        return node.pid
    return record.node_process(data, node.name)


def _ask_odins(nodes: list[NodeRecord]) -> tuple[int | None, NodeRecord | None]:
    """Who says that it leads (of two, the one with the later epoch), and the first that answers at all.

    They are asked as nodes, not over HTTP: an Odin that nobody has used HTTP with would have to load all of it first.
    """
    from concurrent.futures import ThreadPoolExecutor

    from bifrost.client.wire.connection import Address
    from bifrost.client.wire.quorum import hear_controller

    def ask(node: NodeRecord) -> tuple[int, bool]:
        host, port = node.address.rsplit(":", 1)
        greets, quorum = hear_controller(Address(host, int(port)), _ANSWER_S)
        return (-1 if quorum is None or quorum.leader != node.id else quorum.epoch), greets

    odins = [node for node in nodes if "controller" in node.roles]
    if not odins:
        return None, None
    with ThreadPoolExecutor(len(odins)) as pool:
        told = list(zip(odins, pool.map(ask, odins), strict=True))
    first = next((node for node, (_, does) in told if does), None)
    leader, (epoch, _) = max(told, key=lambda each: each[1][0])
    return (leader.id if epoch >= 0 else None), first


def _unfenced(cluster: ClusterRecord) -> set[int] | None:
    """The brokers that take part, as any of them tells."""
    from bifrost.client.errors import BifrostError
    from bifrost.client.wire.client import WireClient

    limits = {"socket.connection.setup.timeout.ms": int(_ANSWER_S * 1000), "request.timeout.ms": int(_ANSWER_S * 1000)}
    with WireClient(cluster.bootstrap, limits) as client:
        try:
            return {broker.id for broker in client.brokers() if not broker.fenced}
        except BifrostError:
            return None


def _show(data: Path, found: Status) -> None:
    if found.running:
        typer.echo(f"runs on {data}, bootstrap {found.bootstrap}" + (f", http {found.http}" if found.http else ""))
    else:
        typer.echo(f"`bifrost up` on {data} did not end in order and is gone")
    now_ms = time.time_ns() // 1_000_000

    def row(node: NodeStatus) -> list[object]:
        remarks = ["active"] * bool(node.active) + ["fenced"] * bool(node.fenced)
        since = _ago(now_ms - node.since_ms)
        return [node.id, node.name, node.address, node.pid, node.state, since, node.restarts, ", ".join(remarks)]

    print_table(["id", "node", "address", "pid", "state", "since", "restarts", ""], map(row, found.nodes))
    if any("controller" in node.roles and node.alive for node in found.nodes) and found.active_odin is None:
        typer.echo("no Odin is active: HOGO LO, an election is under way, or too few of them live")


def _ago(elapsed_ms: int) -> str:
    seconds = max(0, elapsed_ms // 1000)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
