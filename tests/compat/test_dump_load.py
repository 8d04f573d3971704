"""`bifrost topic dump` and `load` beside any broker: what comes back, what is reported, what a failure leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bifrost.client.dumps import Loaded, LoadError, Range, dump, load
from bifrost.client.errors import BifrostError, TimedOutError, UnknownPartitionError, UnknownTopicError
from bifrost.testing import Record, Topic
from bifrost.testing.pool import Pool
from tests.compat.conftest import StartBroker
from tests.compat.servers import PrivateServer, Server
from tests.integration.command import environment, run
from tests.waiting import eventually

NewTopic = Callable[..., Topic]
SUFFIXES = ["jsonl", pytest.param("parquet", marks=pytest.mark.filterwarnings("ignore::DeprecationWarning"))]


@pytest.fixture
def make(broker: Server) -> Iterator[NewTopic]:
    pool = Pool(existing=broker.bootstrap)

    def new(partitions: int = 1, **config: object) -> Topic:
        return pool.new_topic(broker.bootstrap, "dump", partitions=partitions, config=config)

    yield new
    pool.close()


def contents(topic: Topic) -> list[tuple[object, ...]]:
    return [
        (each.partition, each.offset, each.timestamp_ms, each.key, each.value, each.headers) for each in topic.read()
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_records_come_back_as_they_were(make: NewTopic, tmp_path: Path, suffix: str) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    topic, copy = make(partitions=3), make(partitions=3)
    topic.produce(
        [
            Record("é", key="k", partition=2, headers=[("a", "1"), ("a", b"\xff"), ("n", None)], timestamp_ms=1_000),
            Record(None, key=b"\xff\x00", partition=0, timestamp_ms=2_000),
            Record(b"", key=b"", partition=0, timestamp_ms=1_999),
            *(Record({"n": number}, key=f"{number}", partition=number % 3) for number in range(500)),
        ]
    )
    file = tmp_path / f"orders.{suffix}"
    assert topic.dump(file) == 503
    assert copy.load(file) == 503
    assert contents(copy) == contents(topic)
    again = tmp_path / f"again.{suffix}"
    copy.dump(again)
    assert again.read_bytes() == file.read_bytes().replace(topic.name.encode(), copy.name.encode())


@pytest.mark.parametrize(
    ("wanted", "values"),
    [
        (Range(), "0123456789"),
        (Range(start_offset=2, end_offset=4), "4567"),
        (Range(partitions=[1]), "13579"),
        (Range(start_ms=1_003, end_ms=1_006), "345"),
        (Range(start_ms=5_000), ""),
        (Range(start_offset=99), ""),
        (Range(max_records=3), "024"),
        (Range(partitions=[1], start_offset=4, max_records=3), "9"),
    ],
)
def test_a_range_is_a_range(make: NewTopic, tmp_path: Path, wanted: Range, values: str) -> None:
    topic = make(partitions=2)
    topic.produce([Record(f"{n}", partition=n % 2, timestamp_ms=1_000 + n) for n in range(10)])
    seen: list[tuple[int, int]] = []
    file = tmp_path / "some.jsonl"
    done = dump(
        topic.name,
        file,
        bootstrap=topic.bootstrap,
        range=wanted,
        on_progress=lambda part, total: seen.append((part, total)),
    )
    found = [json.loads(line)["value"] for line in file.read_text().splitlines()]
    assert sorted(found) == sorted(values)
    assert done.records == len(values) == sum(done.by_partition.values())
    assert all(part <= total for part, total in seen)
    if wanted.max_records is None and seen:
        assert seen[-1][0] == seen[-1][1]


def test_what_does_not_fit_is_refused_and_what_was_stored_is_said(make: NewTopic, tmp_path: Path) -> None:
    topic = make(partitions=2)
    file = tmp_path / "some.jsonl"
    file.write_text('{"value": "1", "partition": 1}\n\n{"value": "2", "partition": 2}\n')
    with pytest.raises(
        LoadError, match=r"record 2 of the file is of partition 2.*1 records of the file are stored"
    ) as info:
        topic.load(file)
    assert isinstance(info.value.causes[0], UnknownPartitionError)
    assert (info.value.loaded.read, info.value.loaded.acknowledged) == (1, 1)
    topic.expect(["1"])
    assert topic.load(file, keep_partitions=False) == 2
    with pytest.raises(UnknownPartitionError, match="no partition 5"):
        dump(topic.name, tmp_path / "other.jsonl", bootstrap=topic.bootstrap, range=Range(partitions=[0, 5]))
    assert os.listdir(tmp_path) == ["some.jsonl"]


def test_a_topic_is_made_if_that_is_asked_for(make: NewTopic, tmp_path: Path) -> None:
    existing = make()
    name = f"{existing.name}-new"
    file = tmp_path / "some.jsonl"
    file.write_text('{"value": "1", "partition": 4}\n')
    with pytest.raises(UnknownTopicError, match="--create"):
        load(name, file, bootstrap=existing.bootstrap)
    done = load(name, file, bootstrap=existing.bootstrap, create=True)
    assert done.by_partition == {4: 1}
    assert done.retimed == 1


def test_the_commands_speak_in_sentences_and_json(make: NewTopic, tmp_path: Path) -> None:
    topic = make(partitions=2)
    topic.produce([Record("x", partition=1, timestamp_ms=1_000)])
    bootstrap = ("--bootstrap", topic.bootstrap)
    file = tmp_path / "some.jsonl"
    done = run("topic", "dump", topic.name, file, *bootstrap)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"1 record of {topic.name} in {file}\n", "")
    done = run("topic", "dump", topic.name, file, *bootstrap)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {file} exists already\nhint: Take another name, or overwrite it (--force).\n"
    done = run("topic", "dump", topic.name, file, "--force", "--json", *bootstrap)
    assert json.loads(done.stdout) == {
        "topic": topic.name, "file": str(file), "records": 1, "partitions": {"1": 1},
    }  # fmt: skip
    done = run("topic", "load", topic.name, file, "--json", *bootstrap)
    assert json.loads(done.stdout) == {
        "topic": topic.name, "file": str(file), "sent": 1, "acknowledged": 1, "retimed": 0, "partitions": {"1": 1},
        "complete": True,
    }  # fmt: skip
    file.write_text('{"value": "1"}\n' * 16 + '{"value": 1]\n')
    done = run("topic", "load", topic.name, file, "--json", *bootstrap)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {file} line 17: not JSON")
    assert json.loads(done.stdout)["acknowledged"] == 16
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_loading_says_exactly_what_is_stored(make: NewTopic, tmp_path: Path) -> None:
    topic = make()
    pipe = tmp_path / "endless.jsonl"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "bifrost", "topic", "load", topic.name, str(pipe), "--bootstrap", topic.bootstrap]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            with pipe.open("w") as lines:
                lines.write('{"value": "x", "timestamp": 5}\n' * 3)
                lines.flush()
                eventually(lambda: topic.offsets() == {0: 3})
                process.send_signal(signal.SIGINT)
                lines.write('{"value": "too late"}\n' * 2)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, "")
    assert err == "error: interrupted after 3 records, which are stored: 3 in partition 0\n"
    topic.expect(["x", "x", "x"])


def test_nobody_there_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(BifrostError, match="no broker answers"):
        dump("t", tmp_path / "some.jsonl", bootstrap="127.0.0.1:1", timeout_s=3)
    assert os.listdir(tmp_path) == []


class Death:
    """Of a broker, once; it may come back."""

    def __init__(self, server: PrivateServer, *, for_good: bool = False) -> None:
        self._server = server
        self._for_good = for_good
        self.came = False

    def while_dumping(self, part: int, total: int) -> None:
        if 0 < part < total:
            self._strike()

    def while_loading(self, done: Loaded) -> None:
        if done.read >= 5_000:
            self._strike()

    def _strike(self) -> None:
        if not self.came:
            self.came = True
            self._server.kill()
            if not self._for_good:
                self._server.start()


def big_topic(pool: Pool, server: PrivateServer) -> Topic:
    """Of more than a reader holds ready."""
    topic = pool.new_topic(server.bootstrap, "big")
    topic.produce([Record(f"{number:>02000}") for number in range(20_000)])
    return topic


@pytest.mark.parametrize("name", [pytest.param("kafka", marks=pytest.mark.oracle), "bifrost"])
def test_a_broker_that_dies_and_comes_back(start_broker: StartBroker, tmp_path: Path, name: str) -> None:
    """Under a dump and under a load: nothing is missing, and nothing doubled."""
    server = start_broker(name)
    address, pool = server.bootstrap, Pool(existing=server.bootstrap)
    big, copy = big_topic(pool, server), pool.new_topic(address, "copy")
    whole, again = tmp_path / "big.jsonl", tmp_path / "copy.jsonl"
    deaths = [Death(server), Death(server)]
    dumped = dump(big.name, whole, bootstrap=address, timeout_s=60, on_progress=deaths[0].while_dumping)
    loaded = load(copy.name, whole, bootstrap=address, timeout_s=60, on_progress=deaths[1].while_loading)
    assert (dumped.records, loaded.acknowledged) == (20_000, 20_000)
    assert all(death.came for death in deaths)
    dump(copy.name, again, bootstrap=address)
    assert [line["value"] for line in lines_of(again)] == [f"{number:>02000}" for number in range(20_000)]
    pool.close()


def test_a_broker_that_dies_for_good(start_broker: StartBroker, tmp_path: Path) -> None:
    """A dump leaves no file, and a load says what is stored."""
    server = start_broker("bifrost")
    address, pool = server.bootstrap, Pool(existing=server.bootstrap)
    big, copy = big_topic(pool, server), pool.new_topic(address, "copy")
    whole, half = tmp_path / "big.jsonl", tmp_path / "half.jsonl"
    dump(big.name, whole, bootstrap=address)
    death = Death(server, for_good=True)
    with pytest.raises(TimedOutError, match=r"nothing came from .* for 1 s, at offset \d+ of big"):
        dump(big.name, half, bootstrap=address, timeout_s=1, on_progress=death.while_dumping)
    assert not half.exists()
    server.start()
    death = Death(server, for_good=True)
    with pytest.raises(LoadError, match=r"records of the file are stored") as info:
        load(copy.name, whole, bootstrap=address, timeout_s=2, on_progress=death.while_loading)
    server.start()
    assert info.value.loaded.acknowledged <= sum(copy.offsets().values()) < 20_000
    pool.close()


def lines_of(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]
