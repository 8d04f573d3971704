"""`bifrost up`: a cluster on this machine, in the foreground or behind it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bifrost.cli.failure import fail
from bifrost.cli.options import parse_assignments
from bifrost.cli.serve import load, ready_line, serve, set_up_logging

if TYPE_CHECKING:  # heavy, and `--help` needs none of it
    from bifrost.broker.node import Node
    from bifrost.realm.plan import PlannedNode, Shape

_DEFAULTS: Final = {"num.partitions": "3"}
Data = Annotated[Path, typer.Option("--data", help="Where the data live.", file_okay=False)]
DATA: Final = Path("bifrost-data")


Brokers = Annotated[
    int, typer.Option("--brokers", "-n", min=1, help="How many Heimdall; 1 is a single process that is Odin, too.")
]
Odins = Annotated[
    int | None,
    typer.Option("--odins", help="How many Odin: 1, 3 or 5. Three, unless there is one broker.", show_default=False),
]
Port = Annotated[
    int,
    typer.Option(
        "--port", "-p", min=0, max=64_000, help="The first broker's; others count from it, 0 takes free ones."
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of all nodes, under Kafka's name; repeatable."),
]


def up(
    brokers: Brokers = 3,
    odins: Odins = None,
    data: Data = DATA,
    port: Port = 9092,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when all are ready, and leave them running.")
    ] = False,
    no_restart: Annotated[bool, typer.Option("--no-restart", help="Leave nodes dead that die.")] = False,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Use a temporary directory and remove it at the end.")
    ] = False,
    assignments: Assignments = None,
    logs: Annotated[bool, typer.Option("--logs", help="Show all that nodes log, not only what matters.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")] = False,
    in_background: Annotated[bool, typer.Option("--in-background", hidden=True)] = False,
) -> None:
    """Start a cluster here and now, with data in ./bifrost-data.

    Three Heimdall, on 9092 and up, and three Odin, on 9192 and up. Prints `ready bootstrap=HOST:PORT,...` once all
    serve. A node that dies is started again; Ctrl-C stops all in good order. What nodes log is in DATA/logs, what runs
    in DATA/cluster.json.

    \b
    $ bifrost up
    $ bifrost up --brokers 1
    $ bifrost up --detach && bifrost status
    $ bifrost up --port 0 --ephemeral --set num.partitions=6
    """
    from bifrost.cli import up_checks
    from bifrost.cli.up_detached import start_in_background

    named = parse_assignments(assignments or [], "--set", "num.partitions=3")
    shape = up_checks.shape_meant(brokers, odins)
    if ephemeral and detach:
        fail("--ephemeral removes the data at the end, which --detach leaves to others; choose one", code=2)
    up_checks.check_settings(named, shape)
    with _directory(data, ephemeral=ephemeral) as folder, _planned(shape, folder, port, named) as nodes:
        remark = up_checks.check_data(folder, shape)
        up_checks.check_nobody_runs(folder)
        if "listeners" not in named:  # else the node tells, whatever they are
            up_checks.check_ports(nodes)
        if shape.is_one_node and not (detach or in_background):
            set_up_logging(verbose=verbose)
            _run_alone(nodes[0], folder)
            return
        up_checks.check_values(nodes)
        if not detach:
            intro, restarts, everything = f"starting {shape}", not no_restart, logs or verbose
            _supervise(
                nodes, folder, intro=intro, remark=remark, restarts=restarts, verbose=verbose,
                everything=everything, in_background=in_background,
            )  # fmt: skip
            return
    options = ["--no-restart"] * no_restart + ["--verbose"] * verbose
    start_in_background(shape, data, port, [*options, *(part for one in assignments or [] for part in ("--set", one))])


@contextmanager
def _directory(data: Path, *, ephemeral: bool) -> Iterator[Path]:
    if not ephemeral:
        yield data
        return
    folder = Path(tempfile.mkdtemp(prefix="bifrost-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _planned(shape: Shape, data: Path, port: int, named: dict[str, str]) -> Iterator[list[PlannedNode]]:
    """The nodes with all their settings, on ports that are theirs until the end."""
    from bifrost.realm.plan import Ports, plan
    from bifrost.realm.ports import ReservedPorts
    from bifrost.settings.broker import attribute_names

    http = "http.listener" in attribute_names()
    ports = Ports.counted_from(port, shape, http=http)
    count = len((*ports.brokers, *ports.odins, *ports.http))
    with ReservedPorts(0 if port else count) as free:
        nodes = plan(shape, data, ports if port else Ports.dealt(free.numbers, shape))
        yield [_with_settings(node, data, named) for node in nodes]


def _with_settings(node: PlannedNode, data: Path, named: dict[str, str]) -> PlannedNode:
    """What was typed wins, where it may be typed; a single node may be another than number 0."""
    settings = {**_DEFAULTS, **node.settings}
    name = node.name
    if "node.id" in named:
        name = f"node-{named['node.id']}"
        settings["log.dirs"] = str(data / name)
    return replace(node, name=name, settings={**settings, **named})


def _run_alone(node: PlannedNode, data: Path) -> None:
    """One node, in this process."""
    from bifrost.realm import record
    from bifrost.realm.record import ClusterRecord, NodeRecord

    settings = load(node.settings)

    def ready(running: Node) -> None:
        now_ms = time.time_ns() // 1_000_000
        address, http, pid = running.address, running.http_url, os.getpid()
        itself = NodeRecord(settings.node_id, node.name, node.roles, address, pid, "running", now_ms, http=http)
        record.write(data, ClusterRecord(address, http, pid, (itself,)))
        print(ready_line(running), flush=True)

    with claimed(data):
        try:
            serve(settings, ready)
        finally:
            record.remove(data)


@contextmanager
def claimed(data: Path) -> Iterator[None]:
    """For as long as this process lives, `data` are its alone."""
    from bifrost.cli.up_checks import check_nobody_runs
    from bifrost.errors import StorageError
    from bifrost.log.disk import DirectoryInUseError
    from bifrost.log.real_disk import RealDisk
    from bifrost.realm.record import UP_LOCK

    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = RealDisk().lock(str(data / UP_LOCK))
    except DirectoryInUseError:
        check_nobody_runs(data)
        raise
    except StorageError as error:
        fail(error, code=1)
    except OSError as error:
        fail(f"cannot use {data}: {error.strerror}", code=1)
    try:
        yield
    finally:
        lock.release()


def _supervise(
    nodes: Sequence[PlannedNode],
    data: Path,
    *,
    intro: str,
    remark: str | None,
    restarts: bool,
    verbose: bool,
    everything: bool,
    in_background: bool,
) -> None:
    """All nodes as processes, until somebody stops them."""
    import asyncio

    from bifrost.cli.up_screen import Screen, background_console
    from bifrost.realm.supervision import Policy
    from bifrost.realm.supervisor import LOGS, Supervisor

    console = background_console() if in_background else None
    screen = Screen([node.name for node in nodes], everything=everything, console=console)
    screen.remark(f"{intro}, data in {data}, logs in {data / LOGS}")
    if remark is not None:
        screen.remark(f"note: {remark}")
    with claimed(data):
        for node in nodes:  # before the first one starts: from here on the directory has its shape
            (data / node.name).mkdir(exist_ok=True)

        async def run() -> tuple[bool, str | None]:
            options = ["--verbose"] if verbose else []
            supervisor = Supervisor(nodes, data, screen, policy=Policy(restarts=restarts), options=options)
            return await supervisor.run(), supervisor.failure

        was_asked_to, failure = asyncio.run(run())
    if failure is not None:
        fail(failure, hint=f"All of what it logged is in {data / LOGS}.", code=1)
    if not was_asked_to:
        fail("no node is left", hint=f"What they logged is in {data / LOGS}.", code=1)
