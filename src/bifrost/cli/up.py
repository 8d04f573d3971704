"""`bifrost up`: a cluster on this machine, in the foreground."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from bifrost.cli.failure import fail
from bifrost.cli.options import parse_assignments
from bifrost.cli.serve import load, serve, set_up_logging


def up(
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, help="How many brokers to run; one, for now.")] = 1,
    data: Annotated[Path, typer.Option("--data", help="Where the data live.", file_okay=False)] = Path("bifrost-data"),
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="The port to serve on; 0 picks one.")
    ] = 9092,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Use a temporary directory and remove it at the end.")
    ] = False,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting under Kafka's name; may be repeated."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at debug level.")] = False,
) -> None:
    """Start a broker here and now, with data in ./bifrost-data.

    Prints `ready bootstrap=HOST:PORT` once it serves and keeps DATA/cluster.json for tools; Ctrl-C stops it cleanly.
    """
    if brokers > 1:
        fail("--brokers above 1 needs replication, which is not there yet; use --brokers 1", code=2)
    named = parse_assignments(assignments or [], "--set", "num.partitions=3")
    set_up_logging(verbose=verbose)
    if ephemeral:
        data = Path(tempfile.mkdtemp(prefix="bifrost-"))
    try:
        _run(named, data, port)
    finally:
        if ephemeral:
            shutil.rmtree(data, ignore_errors=True)


def _run(named: dict[str, str], data: Path, port: int) -> None:
    node_id = named.get("node.id", "0")
    defaults = {
        "node.id": node_id,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data / f"node-{node_id}"),
        "num.partitions": "3",
    }
    settings = load({**defaults, **named})
    description = data / "cluster.json"
    described = False

    def ready(address: str) -> None:
        nonlocal described
        described = True
        node = {"id": int(node_id), "roles": ["broker", "controller"], "address": address, "pid": os.getpid()}
        data.mkdir(parents=True, exist_ok=True)
        description.write_text(json.dumps({"bootstrap": address, "nodes": [node]}, indent=2) + "\n", encoding="utf-8")
        print(f"ready bootstrap={address}", flush=True)

    try:
        serve(settings, ready)
    finally:
        if described:  # else the file, if there is one, is that of the node that keeps us from starting
            description.unlink(missing_ok=True)
