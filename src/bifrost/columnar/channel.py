"""Record batches from several threads to one, no more of them at a time than were agreed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from bifrost.client.changes import Changes

Item = TypeVar("Item")


class _Sending:
    def __init__(self, leave: Callable[[BaseException | None], None]) -> None:
        self._leave = leave

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        self._leave(error)
        return True


class Channel(Generic[Item]):
    """Ends when every sender has, or one has failed, or the receiver has closed it."""

    def __init__(self, room: int, senders: int) -> None:
        self._room = room
        self._senders = senders
        self._items: deque[Item] = deque()
        self._failure: BaseException | None = None
        self._closed = False
        self._changed = Changes()

    @property
    def closed(self) -> bool:
        return self._closed

    def put(self, item: Item) -> bool:
        """Waits for room. False: nobody wants any more."""
        with self._changed.lock:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._room)
            if not self._closed:
                self._items.append(item)
                self._changed.notify_all()
            return not self._closed

    def sending(self) -> _Sending:
        """The work of one sender; what it fails with is raised at the receiver, and nowhere else."""
        return _Sending(self._leave)

    def _leave(self, failure: BaseException | None) -> None:
        with self._changed.lock:
            self._senders -= 1
            self._failure = self._failure or failure
            self._changed.notify_all()

    def get(self) -> Item | None:
        """The next item; None at the end. Raises what a sender failed with."""
        with self._changed.lock:
            self._changed.wait_for(lambda: self._items or not self._senders or self._failure or self._closed)
            if self._failure is not None and not self._items:
                raise self._failure
            if not self._items or self._closed:
                return None
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Lets senders go that wait for room."""
        with self._changed.lock:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()
