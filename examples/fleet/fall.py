"""A leader dies in the middle of the stream: killed, replaced, started again, and in sync again, with the time of each.

The broker is a process, and SIGKILL leaves it no moment to hand anything over.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from bifrost.client.moves.layout import Place
from bifrost.client.wire.client import WireClient
from bifrost.testing import Cluster
from bifrost.testing.process import ProcessNode
from examples.fleet.delivery import POSITIONS, Stream

_LOOK_EVERY_S: Final = 0.002
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True)
class Fall:
    """What happened. Seconds count from the moment of the signal."""

    broker: int
    led: tuple[int, ...]
    """Partitions of the positions that were its."""
    elected_s: float
    """Until another broker told who leads them now."""
    written_s: float
    """Until each of them that trucks write to had acknowledged a report which was sent after the signal."""
    back_s: float
    in_sync_s: float
    """Until it was in sync again, in every partition of the positions."""


def kill_a_leader(cluster: Cluster, stream: Stream, after: int, tell: Callable[[str], None]) -> Fall:
    """Once so many reports are acknowledged. Runs beside the stream, which must notice nothing but a pause."""
    _wait_until(lambda: len(stream.acknowledged) >= after, "reports are acknowledged")
    with WireClient(cluster.bootstrap) as client:
        places = _places(client)
        victim = places[stream.acknowledged[-1].partition].leader
        assert victim is not None
        node = cluster.node(victim)
        assert isinstance(node, ProcessNode)
        led = tuple(partition for partition, place in places.items() if place.leader == victim)
        tell(f"{len(stream.acknowledged):,} are acknowledged, the next are on their way")
        tell(f"[red]kill -9[/red] heimdall-{victim} (process {node.pid}), which leads {_named(led)}")
        heard, killed_s = len(stream.acknowledged), time.perf_counter()
        node.send(signal.SIGKILL)
        elected_s = _until_others_lead(client, led, victim, killed_s)
        leaders = {partition: place.leader for partition, place in _places(client).items() if partition in led}
        tell(f"{_after(elected_s)}  {_led_by(leaders)}")

        awaited = {each.partition for each in stream.acknowledged}.intersection(led)
        _wait_until(lambda: stream.is_over or len(_written(stream, heard, killed_s, awaited)) == len(awaited), "writes")
        written_s = max(_written(stream, heard, killed_s, awaited).values(), default=0.0)
        tell(f"{_after(written_s)}  {_named(sorted(awaited))} acknowledged what was sent since then")

        cluster.restart(victim)
        back_s = time.perf_counter() - killed_s
        tell(f"{_after(back_s)}  heimdall-{victim} is back, as process {node.pid}")
        _wait_until(lambda: all(victim in place.isr for place in _places(client).values()), "it is in sync again")
        in_sync_s = time.perf_counter() - killed_s
        tell(f"{_after(in_sync_s)}  heimdall-{victim} is in sync: three copies of everything again")
    return Fall(victim, led, elected_s, written_s, back_s, in_sync_s)


def _until_others_lead(client: WireClient, led: tuple[int, ...], victim: int, killed_s: float) -> float:
    def others_lead() -> bool:
        places = _places(client)
        return not {places[partition].leader for partition in led} & {None, victim}

    _wait_until(others_lead, "others lead what it led")
    return time.perf_counter() - killed_s


def _places(client: WireClient) -> dict[int, Place]:
    return {tp.partition: place for tp, place in client.replicas.layout().places.items() if tp.topic == POSITIONS}


def _written(stream: Stream, heard: int, killed_s: float, partitions: set[int]) -> dict[int, float]:
    """When each of them first acknowledged what was sent after the signal: an answer from before may come later."""
    first: dict[int, float] = {}
    for each in stream.acknowledged[heard:]:
        if each.partition in partitions and each.sent_s > killed_s:
            first.setdefault(each.partition, each.heard_s - killed_s)
    return first


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {_PATIENCE_S:.0f} s in vain: {what}")
        time.sleep(_LOOK_EVERY_S)


def _named(partitions: Collection[int]) -> str:
    noun = "partition" if len(partitions) == 1 else "partitions"
    return f"{noun} {' and '.join(map(str, partitions))}"


def _led_by(leaders: Mapping[int, int | None]) -> str:
    return ", ".join(f"heimdall-{leader} leads {partition}" for partition, leader in leaders.items())


def _after(seconds: float) -> str:
    text = f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    return f"+{text:>7}"
