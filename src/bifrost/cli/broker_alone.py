"""A broker that `bifrost broker add` runs by itself, for a cluster elsewhere: in the foreground, or left running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from bifrost.cli.broker_add import Guest, tell_failure, tell_ready

if TYPE_CHECKING:
    from bifrost.broker.node import Node


def run_alone(guest: Guest, bootstrap: str, *, as_json: bool) -> None:
    """Until somebody stops it; `bifrost status` and `bifrost down` know it by its record."""
    from bifrost.cli.serve import load, serve, set_up_logging
    from bifrost.cli.up import claimed
    from bifrost.realm import record
    from bifrost.realm.plan import HEIMDALL
    from bifrost.realm.record import ClusterRecord, NodeRecord

    settings = load(
        {
            "node.id": str(guest.id),
            "process.roles": HEIMDALL,
            "listeners": guest.listener,
            "log.dirs": str((guest.data / guest.name).absolute()),
            "controller.quorum.voters": guest.voters,
            **guest.own,
        }
    )

    def ready(running: Node) -> None:
        now_ms = time.time_ns() // 1_000_000
        itself = NodeRecord(guest.id, guest.name, (HEIMDALL,), running.address, os.getpid(), "running", now_ms)
        record.write(guest.data, ClusterRecord(bootstrap, None, os.getpid(), (itself,)))
        tell_ready(guest, running.address, as_json=as_json)
        sys.stdout.flush()

    with claimed(guest.data):
        set_up_logging(verbose=False)
        try:
            serve(settings, ready)
        finally:
            record.remove(guest.data)


def start_in_background(guest: Guest, bootstrap: str, *, as_json: bool) -> None:
    """The same as a process that stays when this command ends."""
    guest.log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bifrost", "broker", "add", "--data", str(guest.data.absolute())]
    command += ["--controllers", guest.voters, "--id", str(guest.id), "--bootstrap", bootstrap]
    own = {"listeners": guest.listener, **guest.own}
    command += [part for name, value in own.items() for part in ("--set", f"{name}={value}")]
    with guest.log.open("ab") as log:
        before = log.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    if not line.startswith("ready "):
        tell_failure(guest.log, before, process.wait())
    told = dict(word.split("=", 1) for word in line.split()[1:])
    tell_ready(guest, told["address"], process.pid, as_json=as_json)
