"""`bifrost broker move-log`: a replica moves to another directory of its broker."""

from __future__ import annotations

import time
from typing import Annotated, Final

import typer

from bifrost.cli import moving
from bifrost.cli.failure import fail
from bifrost.cli.options import TIMEOUT_S, Bootstrap, Cluster, CommandConfig, Json, Timeout, connect_wire
from bifrost.cli.output import print_json
from bifrost.cli.patience import ANSWERS, hogo_lo
from bifrost.client.descriptions import ReplicaPlace
from bifrost.client.wire.client import WireClient
from bifrost.types import TopicPartition

_PAUSE_S: Final = 0.2


def move_log(
    partition: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", help="Whose replica.", show_default=False)],
    broker: Annotated[int, typer.Option("--broker", metavar="ID", help="On which broker.", show_default=False)],
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="One of its log.dirs, in full.", show_default=False)],
    wait: moving.Wait = True,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Move a replica to another log directory of the same broker, while it is written to and read.

    The broker copies it and then takes the copy for it. `bifrost broker logdirs` shows the directories that there are;
    a broker's setting, replica.alter.log.dirs.io.max.bytes.per.second, how fast it goes. To ask for the directory that
    the replica is in gives the move up.

    \b
    $ bifrost broker move-log orders:0 --broker 1 --to /mnt/disk2/bifrost
    $ bifrost broker move-log orders:0 --broker 1 --to /mnt/disk2/bifrost --no-wait
    """
    tp = _partition(partition)
    client = connect_wire(bootstrap, cluster, timeout, command_config)
    with client, hogo_lo(ANSWERS, client.bootstrap, timeout):
        live = [each.id for each in client.brokers() if not each.fenced]
        if broker not in live:
            fail(f"no broker {broker} lives in this cluster", hint=f"There are: {live}.", code=1)
        directories = [each.path for each in client.log_dirs([broker])]
        if to not in directories:
            fail(f"broker {broker} has no log directory {to}", hint=f"There are: {', '.join(directories)}.", code=1)
        if tp not in client.replica_places(broker):
            fail(f"broker {broker} has no replica of {partition}", hint="See `bifrost topic describe`.", code=1)
        client.move_replica(broker, tp, to)
        place = _watch(client, broker, tp, to) if wait else client.replica_places(broker).get(tp)
    if place is None or (wait and place.path != to):
        fail(f"{partition} did not move: it was deleted, or the move was given up", code=1)
    if as_json:
        print_json({"topic": tp.topic, "partition": tp.partition, "place": place})
    elif place.path == to:
        typer.echo(f"{partition} is in {to} on broker {broker}, {place.size_bytes} bytes")
    else:
        typer.echo(f"{partition} is on its way to {to} on broker {broker}, {place.offset_lag} offsets behind")


def _partition(text: str) -> TopicPartition:
    topic, colon, index = text.rpartition(":")
    if not colon or not topic or not index.isdecimal():
        fail(f"{text!r} is no partition", hint="Expected TOPIC:PARTITION, such as orders:0.", code=2)
    return TopicPartition(topic, int(index))


def _watch(client: WireClient, broker: int, tp: TopicPartition, to: str) -> ReplicaPlace | None:
    """Where it is in the end."""
    while True:
        place = client.replica_places(broker).get(tp)
        if place is None or place.path == to or place.future_path != to:
            return place
        time.sleep(_PAUSE_S)
