"""The host process of the Python clients: `python -m tests.compat.members.worker CLIENT`.

One thread per member. A member's client is touched by its own thread only; commands wait in a queue until the thread
has come back from polling.
"""

from __future__ import annotations

import importlib
import json
import logging
import queue
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from tests.compat.members.spec import Spec

Place = tuple[str, int]
Offsets = dict[Place, int]

POLL_S = 0.05
RECORDS_MAX = 200
MODULES = {
    "confluent": "tests.compat.members.confluent_member",
    "kafka-python": "tests.compat.members.kafka_python_member",
    "aiokafka": "tests.compat.members.aiokafka_member",
}


class CommitError(Exception):
    """The client's commit failed; says which code and words."""


class Member(ABC, threading.Thread):
    """A client in a loop: commands, poll, tell."""

    _output: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str, spec: Spec) -> None:
        super().__init__(name=name, daemon=True)
        self.spec = spec
        self.commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.next_offsets: Offsets = {}
        """What would be committed now: for each partition that this member owns and has read, where it would go on."""
        self._untold: list[tuple[str, int, int, str]] = []
        self._leaving = False

    def took(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        """A record was handed out by the client; it is told with the next event at the latest."""
        self._untold.append((topic, partition, offset, value.decode()))
        self.next_offsets[topic, partition] = offset + 1

    def tell(self, **event: Any) -> None:
        records, self._untold = self._untold, []
        events = [{"records": records}] if records else []
        lines = [json.dumps({"member": self.name, "at": time.time(), **each}) for each in (*events, event) if each]
        with self._output:
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            sys.stdout.flush()

    def run(self) -> None:
        try:
            self.open()
            while not self._leaving:
                while not self.commands.empty():
                    self._obey(self.commands.get())
                if not self._leaving:
                    self._step()
            self.close()
            self.tell(left=True)
        except Exception as error:
            self.tell(failed=f"{type(error).__name__}: {error}")
            raise

    def _obey(self, command: dict[str, Any]) -> None:
        match command["op"]:
            case "commit":
                self.commit(synchronously=command["sync"])
            case "stall":
                time.sleep(command["seconds"])
            case "leave":
                self._leaving = True

    def _step(self) -> None:
        self.poll()
        if self._untold:
            self.tell()
            if self.spec.commit == "always":
                self.commit(synchronously=True)

    def commit(self, *, synchronously: bool) -> None:
        offsets = dict(self.next_offsets)
        told = [[topic, partition, offset] for (topic, partition), offset in offsets.items()]
        if not offsets:
            return
        self.tell(committing=told)
        if not synchronously:
            self.commit_later(offsets, told)
            return
        try:
            self.commit_now(offsets)
        except CommitError as error:
            self.tell(commit_failed=told, text=str(error))
        else:
            self.tell(committed=told)

    def on_assigned(self, places: list[Place]) -> None:
        self.tell(assigned=places)

    def on_revoked(self, places: list[Place]) -> None:
        """Called while the partitions are still owned, so that what was read can be committed."""
        if self.spec.commit == "always":
            self.commit(synchronously=True)
        self.gave_up(places)

    def gave_up(self, places: list[Place]) -> None:
        self.tell(revoked=places)
        self._forget(places)

    def on_lost(self, places: list[Place]) -> None:
        self.tell(lost=places)
        self._forget(places)

    def _forget(self, places: list[Place]) -> None:
        for place in places:
            self.next_offsets.pop(place, None)

    @abstractmethod
    def open(self) -> None:
        """Makes the client and subscribes."""

    @abstractmethod
    def poll(self) -> None:
        """Hands what came, at most RECORDS_MAX, to `took`; returns soon if nothing came."""

    @abstractmethod
    def commit_now(self, offsets: Offsets) -> None:
        """Returns when the broker has acknowledged it; CommitError otherwise."""

    @abstractmethod
    def commit_later(self, offsets: Offsets, told: list[list[Any]]) -> None:
        """Returns at once; tells `committed` or `commit_failed` when the client knows."""

    @abstractmethod
    def close(self) -> None:
        """Leaves the group as a client does that ends in good order."""


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    kind = importlib.import_module(MODULES[sys.argv[1]]).MEMBER
    members: dict[str, Member] = {}
    for line in sys.stdin:
        command = json.loads(line)
        name = command["member"]
        if command["op"] == "join":
            members[name] = kind(name, Spec(**command["spec"]))
            members[name].start()
        else:
            members[name].commands.put(command)


if __name__ == "__main__":
    main()
