"""The list of events forgets and says so; a stream over it never has a hole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.unit.controller.stand_ins import CLUSTER, MemoryLog, cluster_of, create

from bifrost.controller.core.events import EventId
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import ClusterCreated, encode_change
from bifrost.controller.core.snapshot import image_records
from bifrost.controller.core.topics import NewTopic
from bifrost.controller.http.history import EventHistory
from bifrost.controller.http.stream import event_stream
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import ApiError, ErrorCode
from bifrost.raft.metadata_log import EpochBegun


def filled(events_max: int, changes: int) -> EventHistory:
    history = EventHistory(events_max)
    for offset in range(changes):
        history.on_change(MetadataImage(), EpochBegun(1, offset), offset=offset, at_ms=0)
    return history


def ids(history: EventHistory, after: EventId, limit: int = 1000) -> list[str]:
    return [str(event_id) for event_id, _ in history.after(after, limit)]


def test_events_behind_an_id_come_in_order_and_in_portions() -> None:
    history = filled(10, 6)
    assert ids(history, EventId(0, 0)) == [f"{n}.1" for n in range(6)]
    assert ids(history, EventId(2, 1), 2) == ["3.1", "4.1"]
    assert ids(history, EventId(3, 0), 1) == ["3.1"]
    assert ids(history, EventId(5, 1)) == []
    assert history.end == EventId(6, 0)


def test_what_is_forgotten_is_admitted() -> None:
    history = filled(10, 21)
    assert len(ids(history, EventId(0, 0))) == 10
    assert not history.knows_all_since(EventId(0, 0))
    assert not history.knows_all_since(EventId(9, 1)), "10.1 was forgotten"
    assert history.knows_all_since(EventId(10, 1))
    assert ids(history, EventId(10, 1))[0] == "11.1"


def test_a_snapshot_forgets_all_of_it() -> None:
    history = filled(10, 5)
    history.on_restored(100)
    assert not history.knows_all_since(EventId(4, 1))
    assert not history.knows_all_since(EventId(99, 1)), "whether 99.2 has been, nobody knows"
    assert history.knows_all_since(EventId(100, 0))
    assert ids(history, EventId(0, 0)) == []


def test_a_replica_tells_its_witness_of_every_change_before_it_is_applied() -> None:
    async def story() -> None:
        log = MemoryLog()
        replica = MetadataReplica(log)
        history = EventHistory(10)
        replica.let_witness(history)
        log.replicas.append(replica)
        await log.append([encode_change([ClusterCreated("c")])], 1)
        ((event_id, event),) = history.after(EventId(0, 0), 10)
        assert (event.kind, event_id, event.at_ms) == ("cluster.created", (0, 1), 0)

    asyncio.run(story())


async def nobody_knows() -> None:
    raise ApiError(ErrorCode.NOT_CONTROLLER, "")


async def nothing_new() -> None:
    pass


async def blocks(stream: AsyncIterator[bytes], count: int) -> list[tuple[str, str | None, Any]]:
    """(kind, id, data) of so many events; what comes without them is passed over."""
    found: list[tuple[str, str | None, Any]] = []
    while len(found) < count:
        for block in (await anext(stream)).decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "event" in fields:
                found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    assert len(found) == count, found
    return found


def test_a_new_reader_can_resume_before_anything_has_happened() -> None:
    async def story() -> None:
        history = filled(10, 3)
        stream = event_stream(history, MetadataImage, None, until_current=nothing_new)
        assert await blocks(stream, 1) == [("hello", "3.0", {"offset": 3})]
        history.on_change(MetadataImage(), EpochBegun(1, 3), offset=3, at_ms=0)
        ((kind, event_id, _),) = await blocks(stream, 1)
        assert (kind, event_id) == ("controller.changed", "3.1")
        resumed = event_stream(history, MetadataImage, EventId(3, 0), until_current=nothing_new)
        assert (await blocks(resumed, 1))[0][1] == "3.1"

    asyncio.run(story())


def test_an_id_ahead_of_this_odin_alone_is_waited_for() -> None:
    async def story() -> None:
        history = filled(10, 3)

        async def catch_up() -> None:
            for offset in range(3, 6):
                history.on_change(MetadataImage(), EpochBegun(1, offset), offset=offset, at_ms=0)

        stream = event_stream(history, MetadataImage, EventId(4, 1), until_current=catch_up)
        assert [event_id for _, event_id, _ in await blocks(stream, 1)] == ["5.1"]

    asyncio.run(story())


def test_an_id_ahead_of_everything_is_reset_once_that_is_certain() -> None:
    async def story() -> None:
        history = filled(10, 3)
        certain = event_stream(history, MetadataImage, EventId(9, 1), until_current=nothing_new)
        kinds = [kind for kind, _, _ in await blocks(certain, 4)]
        assert kinds == ["reset", "state", "state", "state.end"]
        uncertain = event_stream(history, MetadataImage, EventId(9, 1), until_current=nobody_knows, keep_alive_s=0.01)
        assert (await anext(uncertain)).startswith(b"retry:")
        assert (await anext(uncertain)).startswith(b":"), "it waits, and says that it lives"

    asyncio.run(story())


def test_state_comes_in_pieces_and_events_go_on_from_before_the_first() -> None:
    async def story() -> None:
        image = cluster_of(0)
        create(image, *(NewTopic(f"t{number:03}", 1, 1) for number in range(120)))
        history = filled(3, 10)
        stream = event_stream(history, lambda: image, EventId(0, 0), until_current=nothing_new)
        assert [kind for kind, _, _ in await blocks(stream, 2)] == ["reset", "state"]
        history.on_change(image, EpochBegun(5, 5), offset=10, at_ms=0)  # while pieces are being sent
        pieces = await blocks(stream, 4)
        assert [kind for kind, _, _ in pieces] == ["state", "state", "state", "state.end"]
        names = [topic["topic"] for _, _, data in pieces[:3] for topic in data["topics"]]
        assert names == sorted(image.topics)
        assert pieces[-1][1] == "10.0"
        assert (await blocks(stream, 1))[0][1] == "10.1"

    asyncio.run(story())


def test_a_reader_that_is_slower_than_the_list_forgets_is_dropped_and_told_when_it_is_back() -> None:
    async def story() -> None:
        history = filled(3, 2)
        stream = event_stream(history, MetadataImage, EventId(0, 0), until_current=nothing_new)
        last = (await blocks(stream, 2))[-1][1]
        for offset in range(2, 20):
            history.on_change(MetadataImage(), EpochBegun(1, offset), offset=offset, at_ms=0)
        assert [block async for block in stream] == []
        again = event_stream(history, MetadataImage, EventId.parse(str(last)), until_current=nothing_new)
        assert (await blocks(again, 1))[0][0] == "reset"

    asyncio.run(story())


def test_streams_end_with_the_node() -> None:
    async def story() -> None:
        history = filled(3, 1)
        stream = event_stream(history, MetadataImage, EventId(0, 1), until_current=nothing_new)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        history.close()
        assert (await waiting).startswith(b":")
        assert [block async for block in stream] == []

    asyncio.run(story())


def test_a_snapshot_from_the_leader_is_a_gap_that_a_stream_under_way_does_not_hide() -> None:
    """It stands for changes that this node has never seen: who was reading must not go on as if there were none."""

    async def story() -> None:
        log = MemoryLog()
        replica, history = MetadataReplica(log), EventHistory(10)
        replica.let_witness(history)
        log.replicas.append(replica)
        await log.append([encode_change([ClusterCreated(CLUSTER)])], 1)
        stream = event_stream(history, lambda: replica.image, EventId(0, 0), until_current=nothing_new)
        ((_, last, _),) = await blocks(stream, 1)
        ahead = cluster_of(0, 1)
        create(ahead, NewTopic("orders", 1, 1))
        replica.on_snapshot([encode_change(one) for one in image_records(ahead)], 50)
        assert [block async for block in stream] == [], "it goes on over the gap"
        again = event_stream(history, lambda: replica.image, EventId.parse(str(last)), until_current=nothing_new)
        told = await blocks(again, 4)
        assert [kind for kind, _, _ in told] == ["reset", "state", "state", "state.end"]
        assert [topic["topic"] for topic in told[2][2]["topics"]] == ["orders"]
        assert told[3][1] == "50.0"

    asyncio.run(story())
