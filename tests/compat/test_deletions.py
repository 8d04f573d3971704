"""Records are deleted through the admin clients of three libraries and our own, and by our command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bifrost import Admin, AsyncAdmin
from bifrost.cli.main import app
from bifrost.client.errors import InvalidRequestError, OffsetOutOfRangeError, UnknownPartitionError, UnknownTopicError
from tests.compat.cache import Unavailable
from tests.compat.clients.base import ClientError, Record
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.record_admin import RECORD_ADMINS, RecordAdmin
from tests.compat.conftest import NewTopicFunction, skip_without, unique_name
from tests.compat.servers import Server

OFFSET_OUT_OF_RANGE = 1
POLICY_VIOLATION = 44
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(params=sorted(RECORD_ADMINS))
def records(request: pytest.FixtureRequest, broker: Server) -> RecordAdmin:
    try:
        return RECORD_ADMINS[request.param](broker.bootstrap)
    except Unavailable as error:
        skip_without(error)
        raise


@pytest.fixture
def topic(broker: Server, new_topic: NewTopicFunction) -> str:
    """Ten records in partition 0, an hour apart since noon; five in partition 1."""
    name = new_topic(2, {"retention.ms": "-1"})
    fill(broker, name)
    return name


def fill(broker: Server, name: str) -> None:
    noon_ms = int(NOON.timestamp() * 1000)
    hourly = [Record(b"%d" % hour, partition=0, timestamp_ms=noon_ms + hour * 3_600_000) for hour in range(10)]
    others = [Record(b"x", partition=1, timestamp_ms=noon_ms) for _ in range(5)]
    Confluent(broker.bootstrap).produce(name, hourly + others)


def code_of(action: Callable[[], object]) -> int:
    with pytest.raises(ClientError) as refused:
        action()
    assert refused.value.code is not None
    return refused.value.code


def held(broker: Server, topic: str) -> dict[int, tuple[int, int]]:
    with Admin(broker.bootstrap) as admin:
        return {partition: (each.start, each.end) for partition, each in admin.offsets(topic).items()}


def test_what_lies_before_the_offset_is_gone(records: RecordAdmin, broker: Server, topic: str) -> None:
    assert records.delete_before(topic, 0, 4) == 4
    assert held(broker, topic) == {0: (4, 10), 1: (0, 5)}
    assert records.delete_before(topic, 0, 2) == 4
    read = Confluent(broker.bootstrap).consume(topic, {0: 4}, 6)
    assert [record.value for record in read] == [b"%d" % number for number in range(4, 10)]
    assert records.delete_before(topic, 1, -1) == 5
    assert held(broker, topic) == {0: (4, 10), 1: (5, 5)}


def test_what_is_not_there_cannot_be_deleted(records: RecordAdmin, topic: str) -> None:
    assert code_of(lambda: records.delete_before(topic, 0, 11)) == OFFSET_OUT_OF_RANGE


def test_a_compacted_topic_keeps_its_records(records: RecordAdmin, broker: Server, new_topic: NewTopicFunction) -> None:
    name = new_topic(1, {"cleanup.policy": "compact"})
    Confluent(broker.bootstrap).produce(name, [Record(b"v", key=b"k", partition=0)])
    assert code_of(lambda: records.delete_before(name, 0, 1)) == POLICY_VIOLATION


# Our own admin


@pytest.fixture
def admin(broker: Server) -> Admin:
    return Admin(broker.bootstrap)


def test_by_time_in_all_partitions(admin: Admin, topic: str) -> None:
    plan = admin.plan_delete_records(topic, NOON + timedelta(hours=6, minutes=30))
    assert [(each.partition, each.start, each.new_start, each.end) for each in plan] == [(0, 0, 7, 10), (1, 0, 5, 5)]
    assert [each.start for each in admin.offsets(topic).values()] == [0, 0], "nothing is changed by a plan"
    done = admin.delete_records(topic, NOON + timedelta(hours=6, minutes=30))
    assert [(each.new_start, each.count) for each in done] == [(7, 7), (5, 5)]


def test_an_offset_beyond_one_of_the_ends_deletes_nothing(admin: Admin, topic: str) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 7 of .*-1 is not there"):
        admin.delete_records(topic, 7)
    assert [each.start for each in admin.offsets(topic).values()] == [0, 0]
    assert [each.new_start for each in admin.delete_records(topic, 7, partitions=[0])] == [7]


def test_what_makes_no_sense_is_refused(admin: Admin, topic: str) -> None:
    with pytest.raises(UnknownTopicError):
        admin.delete_records(unique_name())
    with pytest.raises(UnknownPartitionError):
        admin.delete_records(topic, 1, partitions=[9])
    with pytest.raises(InvalidRequestError):
        admin.delete_records(topic, {0: 1}, partitions=[0])


def test_awaited(broker: Server, topic: str) -> None:
    async def counts() -> list[list[int]]:
        async with AsyncAdmin(broker.bootstrap) as admin:
            planned, done = await admin.plan_delete_records(topic), await admin.delete_records(topic, {0: 3})
        return [[each.count for each in found] for found in (planned, done)]

    assert asyncio.run(counts()) == [[10, 5], [3]]


# The command


@pytest.fixture
def run(broker: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("BIFROST_BOOTSTRAP", broker.bootstrap)
    return lambda *arguments: CliRunner().invoke(app, ["topic", "trim", *arguments])


def test_trim(run: Callable[..., Result], broker: Server, topic: str) -> None:
    shown = run(topic, "--before", "4", "--dry-run")
    assert (shown.exit_code, "nothing was deleted" in shown.output) == (0, True)
    assert held(broker, topic) == {0: (0, 10), 1: (0, 5)}
    done = run(topic, "--before", "4")
    assert (done.exit_code, "deleted 8 messages" in done.output) == (0, True), done.output
    assert held(broker, topic) == {0: (4, 10), 1: (4, 5)}
    assert "nothing to delete" in run(topic, "--before", "4").output


def test_trim_for_scripts(run: Callable[..., Result], topic: str) -> None:
    done = run(f"{topic}:0", "--before", "@" + str(int((NOON + timedelta(hours=2)).timestamp() * 1000)), "--json")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    assert rows == [
        {"topic": topic, "partition": 0, "start": 0, "new_start": 2, "end": 10, "count": 2, "deleted": True}
    ]
    rows = json.loads(run(topic, "--all", "--json").stdout)
    assert [(row["partition"], row["new_start"], row["count"]) for row in rows] == [(0, 10, 8), (1, 5, 5)]


def test_trim_by_kafkas_file(run: Callable[..., Result], broker: Server, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    wanted = [{"topic": topic, "partition": 0, "offset": 3}, {"topic": topic, "partition": 1, "offset": -1}]
    path.write_text(json.dumps({"partitions": wanted, "version": 1}))
    assert run("--from-file", str(path)).exit_code == 0
    assert held(broker, topic) == {0: (3, 10), 1: (5, 5)}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["TOPIC"], "up to where?"),
        (["TOPIC", "--before", "3", "--all"], "up to where?"),
        (["--before", "3"], "which topic?"),
        (["TOPIC", "--before", "sometime"], "is not a moment"),
        (["TOPIC:x", "--before", "3"], "TOPIC:0,1"),
        (["TOPIC:0", "--before", "99"], "is not there"),
        (["--from-file", "/nowhere.json"], "cannot read"),
    ],
)
def test_trim_explains_what_is_wrong(
    run: Callable[..., Result], topic: str, arguments: list[str], problem: str
) -> None:
    refused = run(*[each.replace("TOPIC", topic) for each in arguments])
    assert refused.exit_code != 0
    assert problem in refused.output or problem in str(refused.exception), refused.output
