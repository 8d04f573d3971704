"""What the Java client's process says becomes part of the history, failures above all: a JVM is not needed for that."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from tests.faults import java_clients
from tests.faults.java_clients import JavaReader, JavaWriter
from tests.faults.journal import Journal
from tests.sim.history import GARBAGE, Acknowledged, Complaint, Polled
from tests.waiting import eventually


class Scripted:
    """In place of a JVM: the first three records that it is given come to different ends, and then it is gone."""

    def __init__(self, kind: str, *_: str) -> None:
        self._said: list[str] = []
        self._is_writer = kind == "write"

    def say(self, line: str) -> None:
        self._said.append(line)

    def lines(self) -> Iterator[str]:
        if self._is_writer:
            eventually(lambda: len(self._said) >= 3)
            yield "acked 0 7"
            yield "failed 1 org.apache.kafka.common.errors.TimeoutException: 120000 ms"
            yield "acked 2 -1"
        else:
            yield f"record 0 0 {base64.b64encode(b'nonsense').decode()}"
            yield "."
            yield "error org.apache.kafka.common.errors.CorruptRecordException: offset 1"

    def end(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_clients, "_Process", Scripted)
    monkeypatch.setattr(JavaWriter, "PATIENCE_S", 0.1)


def test_a_send_that_failed_is_a_complaint_and_so_is_what_was_never_answered() -> None:
    journal = Journal()
    writer = JavaWriter("java-writer", "", "orders", 1, journal)
    writer.start()
    writer._thread.join(30)
    complaints = {complaint.kind: complaint.detail for complaint in journal.history.of(Complaint)}
    assert "TimeoutException" in complaints["failed send"]
    assert "java-writer" in complaints["dead client"]
    (acked,) = journal.history.of(Acknowledged)
    assert acked.base_offset == 7
    assert writer.acknowledged == 2, "one of them without its offset"


def test_a_read_that_failed_is_a_complaint_and_so_is_a_reader_that_ended() -> None:
    journal = Journal()
    reader = JavaReader("java-reader", "", "orders", 1, journal)
    reader.start()
    reader._thread.join(30)
    kinds = [complaint.kind for complaint in journal.history.of(Complaint)]
    assert kinds == ["read error", "dead client"]
    (polled,) = journal.history.of(Polled)
    assert polled.records == ((0, GARBAGE),)
