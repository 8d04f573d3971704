"""A stream of events as text (server-sent events): what a reader gets, from where it stopped, and never with a hole.

A reader names the last event it has seen. If all behind it are known, they follow. If not, the stream says `reset` with
the reason, then how things stand in pieces (`state`), then `state.end`, whose id is where events go on. Pieces have no
id: a reader that is cut off among them begins with them again. They are taken one after the other while the cluster
changes, and events go on from before the first: so a piece may already show what an event behind it tells once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

import msgspec

from bifrost.controller.core.events import EventId
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.http.history import EventHistory
from bifrost.controller.http.views import broker_view, names_after, topic_view
from bifrost.errors import ApiError

KEEP_ALIVE_S: Final = 3.0
"""Clients of Python's libraries give up after five seconds of silence."""
RETRY_MS: Final = 1000
_EVENTS_AT_ONCE: Final = 100
_TOPICS_IN_A_PIECE: Final = 50

_encode = msgspec.json.Encoder().encode


async def event_stream(
    history: EventHistory,
    image: Callable[[], MetadataImage],
    last: EventId | None,
    *,
    until_current: Callable[[], Awaitable[object]],
    keep_alive_s: float = KEEP_ALIVE_S,
) -> AsyncIterator[bytes]:
    """Blocks of text for one reader. It ends when the node stops, or when the reader is too slow: then it may come
    back, and is told of the gap."""
    yield b"retry: %d\n\n" % RETRY_MS
    if last is None:
        last = history.end
        yield _block("hello", {"offset": last.offset}, str(last))  # so that a reader can resume before anything happens
    elif not history.knows_all_since(last) or await _is_nowhere(history, last, until_current):
        start = history.end
        for block in _state(image, last, start):
            yield block
            await asyncio.sleep(0)
        last = start
    while not history.is_closed and history.knows_all_since(last):
        events = history.after(last, _EVENTS_AT_ONCE)
        if events:
            last = events[-1][0]
            yield b"".join(_block(event.kind, event, str(event_id)) for event_id, event in events)
            await asyncio.sleep(0)  # a reader that is quick enough never makes this task wait: others want to run, too
        else:
            await history.more(keep_alive_s)
            if not history.after(last, 1):
                yield b": still here\n\n"


async def _is_nowhere(history: EventHistory, last: EventId, until_current: Callable[[], Awaitable[object]]) -> bool:
    """Whether no event can have had this id: it is ahead of all that is committed. One that is ahead of this Odin
    alone will come."""
    if last <= history.end:
        return False
    try:
        await until_current()
    except ApiError:
        return False  # nobody knows for now
    return last > history.end


def _state(image: Callable[[], MetadataImage], last: EventId, start: EventId) -> Iterator[bytes]:
    """How things stand, read from the image as it is at each step."""
    reason = f"what happened after {last} is known by its outcome only" if last < start else f"nothing ever was {last}"
    yield _block("reset", {"reason": reason, "after": str(last), "offset": start.offset})
    brokers = [broker_view(one) for one in image().brokers.values()]
    yield _block("state", {"offset": image().offset, "brokers": brokers})
    after: str | None = ""
    while after is not None:
        now = image()
        names, after = names_after(now.topics, after, _TOPICS_IN_A_PIECE)
        yield _block("state", {"offset": now.offset, "topics": [topic_view(now.topics[name]) for name in names]})
    yield _block("state.end", {"offset": start.offset}, str(start))


def _block(kind: str, data: object, event_id: str | None = None) -> bytes:
    name = b"" if event_id is None else b"id: %s\n" % event_id.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (name, kind.encode(), _encode(data))
