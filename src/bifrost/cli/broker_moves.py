"""`bifrost broker decommission` and `bifrost broker rebalance`: what brokers carry, moved off one or evened out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bifrost.cli import broker_leaving, moving
from bifrost.cli.failure import fail
from bifrost.cli.options import (
    TIMEOUT_S,
    Bootstrap,
    Cluster,
    CommandConfig,
    Json,
    Timeout,
    connect_wire,
)
from bifrost.cli.output import print_table
from bifrost.cli.patience import patient
from bifrost.cli.up import DATA, Data

if TYPE_CHECKING:
    from bifrost.client.moves.layout import Assignment, Layout
    from bifrost.client.wire.replica_admin import ReplicaAdmin

_ROUNDS_MAX = 10
"""Somebody may make topics faster than they are moved away."""


def decommission(
    broker: Annotated[int, typer.Argument(metavar="ID", help="The broker that goes.", show_default=False)],
    dry_run: moving.DryRun = False,
    throttle: moving.Throttle = None,
    cancel: moving.Cancel = False,
    wait: moving.Wait = True,
    stop: broker_leaving.Stop = None,
    data: Data = DATA,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Move everything off a broker, stop it, and take it off the cluster's list.

    Its replicas are spread evenly over the others, over racks if they have any, while clients go on. Given again, the
    command goes on where it is. Once the broker holds nothing it is to be stopped: if `bifrost up` runs it here this
    does so, unless --keep-running is given; with --stop it waits for whoever stops one elsewhere. Then the broker is
    taken off the list.

    \b
    $ bifrost broker decommission 3 --dry-run
    $ bifrost broker decommission 3 --throttle 50MB/s
    $ bifrost broker decommission 3 --cancel
    """
    with connect_wire(bootstrap, cluster, timeout, command_config) as client:
        admin = patient(client, timeout)
        layout = admin.layout()
        if broker not in layout.racks and not _held(layout, broker):
            known = ", ".join(map(str, sorted(layout.racks)))
            fail(f"no broker {broker} in this cluster", hint=f"There are {known}.", code=1)
        if cancel:
            under_way = {tp: place for tp, place in layout.places.items() if broker in place.removing}
            moving.cancelled(under_way, admin, as_json=as_json)
            return
        plan = _drained(layout, broker)
        if dry_run:
            moving.show_plan(layout, plan, as_json=as_json)
            return
        done = dict(plan)
        finished = _drain(admin, layout, plan, done, broker, throttle=throttle, wait=wait)
        if not as_json:
            moving.told(done, finished=finished, as_json=False)
        stopped = finished and broker_leaving.stopped(client, broker, data, stop=stop, as_json=as_json)
        if stopped:
            finished = _drain_the_rest(admin, done, broker, throttle=throttle)
            if finished:
                admin.unregister(broker)
    gone = stopped and finished
    if as_json:
        moving.told(done, finished=finished, as_json=True, extra={"stopped": stopped, "unregistered": gone})
    elif gone:
        typer.echo(f"broker {broker} holds nothing and is stopped: it is off the list")


def rebalance(
    dry_run: moving.DryRun = False,
    throttle: moving.Throttle = None,
    cancel: moving.Cancel = False,
    wait: moving.Wait = True,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Even out replicas and leaders over the brokers that are there, with as few moves as that takes.

    After a broker was added, this gives it its share.

    \b
    $ bifrost broker rebalance --dry-run
    $ bifrost broker rebalance --throttle 50MB/s
    """
    from bifrost.client.moves.plan import even
    from bifrost.client.moves.run import MoveRun

    with connect_wire(bootstrap, cluster, timeout, command_config) as client:
        admin = patient(client, timeout)
        layout = admin.layout()
        under_way = {tp: place for tp, place in layout.places.items() if place.is_moving}
        if cancel:
            moving.cancelled(under_way, admin, as_json=as_json)
            return
        plan = even(layout.assignment(), layout.live)
        if not as_json:
            _show_loads(layout, plan)
        if dry_run:
            moving.show_plan(layout, plan, as_json=as_json)
            return
        run = MoveRun(admin, plan, watched=under_way, rate=throttle)
        finished = moving.carry_out(run, wait=wait, again="bifrost broker rebalance")
    moving.told(plan, finished=finished, as_json=as_json)


def _drain(
    admin: ReplicaAdmin,
    layout: Layout,
    plan: Assignment,
    done: Assignment,
    broker: int,
    *,
    throttle: int | None,
    wait: bool,
) -> bool:
    """Until nothing is left there, also of topics that are made meanwhile; whether that is so."""
    from bifrost.client.moves.run import MoveRun

    for _ in range(_ROUNDS_MAX):
        under_way = {tp: place for tp, place in layout.places.items() if broker in place.removing}
        run = MoveRun(admin, plan, watched=under_way, rate=throttle)
        if not moving.carry_out(run, wait=wait, again=f"bifrost broker decommission {broker}"):
            return not plan and not under_way
        layout = admin.layout()
        plan = _drained(layout, broker)
        if not plan:
            return not _held(layout, broker)
        done.update(plan)
    return False


def _drain_the_rest(admin: ReplicaAdmin, done: Assignment, broker: int, *, throttle: int | None) -> bool:
    """Topics may have been made until it was stopped; from then on nothing new comes."""
    layout = admin.layout()
    plan = _drained(layout, broker)
    done.update(plan)
    return not plan or _drain(admin, layout, plan, done, broker, throttle=throttle, wait=True)


def _held(layout: Layout, broker: int) -> bool:
    return any(broker in place.replicas for place in layout.places.values())


def _drained(layout: Layout, broker: int) -> Assignment:
    """Also to other brokers than planned before, where one of those has gone since."""
    from bifrost.client.moves.plan import PlanError, drain

    lost = {tp: layout.fenced & set(place.adding) for tp, place in layout.places.items() if broker in place.removing}
    try:
        return drain(layout.assignment(), layout.live, {broker}, lost=lost)
    except PlanError as error:
        hint = "Add a broker first (`bifrost broker add`), or keep fewer copies (`bifrost topic reassign`)."
        fail(f"broker {broker} cannot go: {error}", hint=hint, code=1)


def _show_loads(layout: Layout, plan: Assignment) -> None:
    from bifrost.client.moves.plan import loads

    before = loads(layout.assignment(), layout.racks)
    after = loads({**layout.assignment(), **plan}, layout.racks)
    rows = [
        [broker, layout.racks.get(broker), *(part for pair in zip(before[broker], after[broker]) for part in pair)]
        for broker in before
    ]
    print_table(["broker", "rack", "replicas", "then", "leaders", "then"], rows)
