"""`bifrost broker add`: one more broker for a cluster that runs, under the next free id.

One that joins what `bifrost up` runs here is started by that, and is one of its nodes from then on. One that joins a
cluster elsewhere runs by itself; `cluster.json` tells of it like of a node that is alone.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, NoReturn

import typer

from bifrost.cli.failure import fail
from bifrost.cli.options import (
    TIMEOUT_S,
    Bootstrap,
    Cluster,
    CommandConfig,
    Json,
    Timeout,
    connect_wire,
    parse_assignments,
)
from bifrost.cli.output import print_json, remark
from bifrost.cli.up import DATA, Data

if TYPE_CHECKING:
    from bifrost.client.moves.layout import Layout
    from bifrost.realm.record import ClusterRecord, NodeRecord

_HOST: Final = "127.0.0.1"
_POLL_S: Final = 0.05
_OWN_OPTIONS: Final = {
    "node.id": "--id says which it is",
    "broker.id": "--id says which it is",
    "process.roles": "it is a broker",
    "log.dirs": "--data says where it keeps its data",
    "log.dir": "--data says where it keeps its data",
    "controller.quorum.voters": "--controllers says who they are",
}


class Guest(NamedTuple):
    """The broker that is started."""

    id: int
    data: Path
    listener: str
    voters: str
    own: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"heimdall-{self.id}"

    @property
    def log(self) -> Path:
        return self.data / "logs" / f"{self.name}.log"


def add(
    data: Data = DATA,
    controllers: Annotated[
        str | None,
        typer.Option(
            "--controllers",
            metavar="ID@HOST:PORT,...",
            help="The Odins of the cluster. Without it, those that `bifrost up` runs on the data.",
            show_default=False,
        ),
    ] = None,
    broker: Annotated[
        int | None, typer.Option("--id", min=0, help="Its id; the next free one, without it.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", min=0, max=65_535, help="Its port; one that is free, without it."),
    ] = None,
    rack: Annotated[str | None, typer.Option("--rack", help="Where it stands.", show_default=False)] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the broker, under Kafka's name; repeatable."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when it is ready, and leave it running.")
    ] = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Start one more broker here and let it join a cluster that runs.

    In a cluster that `bifrost up` runs here it is one more of its nodes: with the same settings, watched over, seen by
    `bifrost status` and stopped by `bifrost down`. It keeps its data in DATA/heimdall-ID and holds nothing at first:
    `bifrost broker rebalance` gives it its share, and `bifrost broker decommission` takes it back. Without --detach,
    Ctrl-C stops it. `bifrost up` starts it too next time, if it is told of one broker more.

    \b
    $ bifrost broker add --detach && bifrost broker rebalance
    $ bifrost broker add --controllers 100@odin-a:9192,101@odin-b:9192,102@odin-c:9192 -b heimdall-a:9092 --rack b
    """
    from bifrost.realm import record

    named = parse_assignments(assignments or [], "--set", "broker.rack=b")
    for name in _OWN_OPTIONS.keys() & named:
        fail(f"--set {name}: {_OWN_OPTIONS[name]}", code=2)
    here = record.read(data)
    voters = controllers or _voters(here, data)
    joins_here = here is not None and sorted(voters.split(",")) == sorted(_odins(here))
    address = bootstrap or (here.bootstrap if here is not None and joins_here and cluster is None else None)
    with connect_wire(address, cluster, timeout, command_config) as client:
        layout, address = client.replicas.layout(), client.bootstrap
    guest = Guest(
        chosen := _id(layout, voters, broker, data),
        data,
        named.pop("listeners", "") or f"PLAINTEXT://{_HOST}:{port or _free_port(chosen, here)}",
        voters,
        named if rack is None else {"broker.rack": rack, **named},
    )
    if joins_here:
        _join(guest, detach=detach, as_json=as_json)
    else:
        from bifrost.cli.broker_alone import run_alone, start_in_background

        (start_in_background if detach else run_alone)(guest, address, as_json=as_json)


def _odins(here: ClusterRecord) -> list[str]:
    return [f"{each.id}@{each.address}" for each in here.nodes if not each.is_broker]


def _voters(here: ClusterRecord | None, data: Path) -> str:
    from bifrost.realm import record

    if here is None or record.supervisor(data) != here.supervisor:
        fail(
            f"no cluster runs on {data}",
            hint="Give --data for the one that `bifrost up` runs, or --controllers for one that runs elsewhere.",
            code=1,
        )
    if not _odins(here):
        fail(
            f"what runs on {data} is a single process, which takes no others in",
            hint="Clusters of several grow: start with `bifrost up --brokers 3`, or name --controllers elsewhere.",
            code=1,
        )
    return ",".join(_odins(here))


def _id(layout: Layout, voters: str, asked: int | None, data: Path) -> int:
    from bifrost.realm.plan import FIRST_ODIN_ID

    try:
        odins = [int(each.partition("@")[0]) for each in voters.split(",")]
    except ValueError:
        fail(f"--controllers takes ID@HOST:PORT, and several with commas, not {voters!r}", code=2)
    taken = {*layout.racks, *odins}
    if asked is None:
        return max((each for each in taken if each < FIRST_ODIN_ID), default=-1) + 1
    is_stopped_one_of_ours = asked in layout.fenced and (data / f"heimdall-{asked}").is_dir()
    if asked in taken and not is_stopped_one_of_ours:
        fail(f"there is a node {asked} already", hint="Leave --id out for the next free one.", code=1)
    return asked


def _free_port(broker: int, here: ClusterRecord | None) -> int:
    """Where `bifrost up` would have it listen, if that is free, so that it is found there again; or any, for good."""
    brokers = [] if here is None else [each for each in here.nodes if each.is_broker]
    wanted = next((int(each.address.rpartition(":")[2]) + broker - each.id for each in brokers), 0)
    with socket.socket() as attempt:
        try:
            attempt.bind((_HOST, wanted))
        except (OSError, OverflowError):
            attempt.bind((_HOST, 0))
        return int(attempt.getsockname()[1])


def _join(guest: Guest, *, detach: bool, as_json: bool) -> None:
    """The supervisor of the cluster here starts it."""
    from bifrost.realm import record, wishes

    supervisor = record.supervisor(guest.data)
    if supervisor is None:
        fail(f"the cluster on {guest.data} has ended", code=1)
    before = guest.log.stat().st_size if guest.log.exists() else 0
    try:
        wish = wishes.make(guest.data, wishes.Join(guest.id, guest.listener, dict(guest.own)), supervisor)
    except ProcessLookupError:
        fail(f"the cluster on {guest.data} has ended", code=1)
    try:
        while wishes.is_open(wish) and record.supervisor(guest.data) == supervisor:
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        _retire(guest, supervisor)
        raise
    cluster = record.read(guest.data)
    node = next((each for each in cluster.nodes if each.name == guest.name), None) if cluster is not None else None
    if node is None or node.pid is None:
        tell_failure(guest.log, before, None)
    if detach:
        tell_ready(guest, node.address, node.pid, as_json=as_json)
    else:
        _stay(guest, node, supervisor, as_json=as_json)


def _stay(guest: Guest, node: NodeRecord, supervisor: int, *, as_json: bool) -> None:
    """Until Ctrl-C, or until the whole cluster or this node is stopped by others."""
    from bifrost.realm import record

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        tell_ready(guest, node.address, node.pid, as_json=as_json)  # who reads it may stop it at once
        remark(f"`bifrost up` watches over it, its log is {guest.log}; Ctrl-C stops it")
        while record.supervisor(guest.data) == supervisor:
            cluster = record.read(guest.data)
            if cluster is not None and all(each.name != guest.name for each in cluster.nodes):
                return
            time.sleep(10 * _POLL_S)
    except KeyboardInterrupt:
        remark("stopping")
        _retire(guest, supervisor)


def _retire(guest: Guest, supervisor: int) -> None:
    from bifrost.realm import record, wishes

    try:
        wish = wishes.make(guest.data, wishes.Retire(guest.name), supervisor)
    except ProcessLookupError:
        return
    while wishes.is_open(wish) and record.supervisor(guest.data) == supervisor:
        time.sleep(_POLL_S)


def tell_failure(log: Path, before: int, code: int | None) -> NoReturn:
    """In the node's own words, which are in its log since it was `before` bytes long."""
    said = log.read_bytes()[before:].decode(errors="replace").splitlines() if log.exists() else []
    errors = [each.removeprefix("error: ") for each in said if each.startswith("error: ")]
    how = "it did not start" if code is None else f"it ended with exit code {code}"
    fail("; ".join(errors) or how, hint=f"More is in {log}.", code=1)


def tell_ready(guest: Guest, address: str, pid: int | None = None, *, as_json: bool) -> None:
    """A process of its own for each reader: scripts, which may want to end it, and people."""
    pid = os.getpid() if pid is None else pid
    if as_json:
        print_json({"id": guest.id, "address": address, "pid": pid, "data": str(guest.data / guest.name)})
        return
    typer.echo(f"ready broker={guest.id} address={address} pid={pid}")
    remark("It holds nothing yet: `bifrost broker rebalance` gives it its share.")
