"""How a broker leaves that holds nothing any more: it is stopped, by whom it may concern, and then forgotten.

Only a broker that is stopped can be taken off the cluster's list; one that runs would come back to it. If `bifrost up`
runs it here, that stops it. Otherwise somebody has to, and is waited for if that is wished.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bifrost.cli.entry import INTERRUPTED
from bifrost.cli.failure import fail
from bifrost.cli.output import is_watched, remark

if TYPE_CHECKING:
    from bifrost.client.descriptions import BrokerDescription
    from bifrost.client.wire.client import WireClient
    from bifrost.client.wire.replica_admin import ReplicaAdmin
    from bifrost.realm.record import NodeRecord

_POLL_S: Final = 0.2
_STOP_S: Final = 60.0
"""`bifrost up` kills who does not stop in a third of it."""

Stop = Annotated[
    bool | None,
    typer.Option(
        "--stop/--keep-running",
        help="Once it holds nothing: wait until somebody has stopped it, and take it off the list; or leave it as it "
        "is. One that `bifrost up` runs here is stopped unless it is to be kept; for others you are asked at a "
        "terminal.",
        show_default=False,
    ),
]


def stopped(client: WireClient, broker: int, data: Path, *, stop: bool | None, as_json: bool) -> bool:
    """Whether the broker, which holds nothing, has stopped when this returns; else what to do has been said."""
    found = next((each for each in client.brokers() if each.id == broker), None)
    if found is None or found.fenced:
        return True
    node = _node_here(data, found)
    if stop is None:
        stop = node is not None or _is_wanted(found, as_json=as_json)
    if not stop:
        if not as_json:
            typer.echo(_what_to_do(found, node))
        return False
    if node is not None:
        _stop_here(client.replicas, broker, node, data)
    else:
        _wait_for_others(client.replicas, found)
    return True


def _node_here(data: Path, broker: BrokerDescription) -> NodeRecord | None:
    """The node of this machine that the broker is, if `bifrost up` runs it. Another cluster has the same ids."""
    from bifrost.realm import record

    cluster = record.read(data)
    if cluster is None or record.supervisor(data) != cluster.supervisor:
        return None
    for node in cluster.nodes:
        # A node that is alone is its own supervisor, and is not told to stop by itself.
        if node.is_broker and node.id == broker.id and node.pid != cluster.supervisor:
            return node if node.address == f"{broker.host}:{broker.port}" else None
    return None


def _is_wanted(broker: BrokerDescription, *, as_json: bool) -> bool:
    if as_json or not is_watched() or not sys.stderr.isatty():
        return False
    question = f"broker {broker.id} holds nothing. Wait until it is stopped, and take it off the list?"
    return typer.confirm(question, default=True, err=True)


def _what_to_do(broker: BrokerDescription, node: NodeRecord | None) -> str:
    again = f"`bifrost broker decommission {broker.id}"
    if node is not None:
        return f"broker {broker.id} holds nothing: {again}` stops it and takes it off the list"
    return (
        f"broker {broker.id} holds nothing: stop it at {broker.host}:{broker.port}, then give {again}` again, "
        "which takes it off the list; with --stop it waits for that"
    )


def _stop_here(admin: ReplicaAdmin, broker: int, node: NodeRecord, data: Path) -> None:
    from bifrost.realm import record, wishes

    supervisor = record.supervisor(data)
    if supervisor is not None:
        try:
            wish = wishes.make(data, wishes.Retire(node.name), supervisor)
        except ProcessLookupError:  # it has ended in this moment, and its nodes with it
            fail(f"the cluster on {data} has ended", code=1)
        _wait(
            lambda: not wishes.is_open(wish) or record.supervisor(data) != supervisor,
            f"{node.name} did not stop in {_STOP_S:g} s",
        )
    _wait(lambda: broker in admin.layout().fenced, f"{node.name} has stopped, but the cluster still counts it in")


def _wait(condition: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + _STOP_S
    while not condition():
        if time.monotonic() > deadline:
            fail(problem, hint="Look at `bifrost status`, and give this command again.", code=1)
        time.sleep(_POLL_S)


def _wait_for_others(admin: ReplicaAdmin, broker: BrokerDescription) -> None:
    remark(
        f"HOGO LO: waiting until broker {broker.id} at {broker.host}:{broker.port} is stopped; Ctrl-C ends the waiting"
    )
    try:
        while broker.id not in admin.layout().fenced:
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        hint = f"It holds nothing. Stop it and give `bifrost broker decommission {broker.id}` again."
        fail("interrupted", hint=hint, code=INTERRUPTED)
