"""`bifrost consume`: where it starts, what it prints, where it stops, what it commits."""

from __future__ import annotations

import signal

import pytest

from tests.compat.cli.commands import Process, run, stored_count
from tests.compat.conftest import NewTopicFunction, StartBroker, unique_name
from tests.compat.servers import Server
from tests.waiting import eventually


@pytest.fixture
def ten(broker: Server, new_topic: NewTopicFunction) -> str:
    """A topic with v0 to v9, a second apart, in one partition."""
    topic = new_topic()
    lines = [f'{{"key": "k{n}", "value": "v{n}", "timestamp": {1_700_000_000_000 + 1000 * n}}}' for n in range(10)]
    assert run(broker, "produce", topic, "--format", "json", given="\n".join(lines).encode()).code == 0
    return topic


def read(server: Server, *arguments: str) -> list[str]:
    done = run(server, "consume", *arguments)
    assert done.code == 0, done
    return done.out.decode().splitlines()


def numbers(server: Server, *arguments: str) -> list[int]:
    return [int(line.removeprefix("v")) for line in read(server, *arguments)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-e"], range(10)),
        (["-e", "--from-beginning"], range(10)),
        (["--from-beginning", "-n", "4"], range(4)),
        (["--no-follow", "--offset", "7"], range(7, 10)),
        (["-e", "-o", "-3"], range(7, 10)),
        (["-e", "-o", "-300"], range(10)),
        (["-e", "-o", "latest"], []),
        (["-e", "-o", "10"], []),
        (["-o", "earliest", "-n", "2"], range(2)),
        (["-e", "--since", "1700000004000"], range(4, 10)),
        (["-e", "--since", "1700000003500"], range(4, 10)),
        (["-e", "--since", "now"], []),
        (["-o", "s@1700000004000", "-o", "e@1700000006000"], range(4, 6)),
        (["--until", "1700000004000"], range(4)),
        (["--since", "2023-11-14T22:13:23Z", "--until", "1700000006000"], range(3, 6)),
        (["-e", "--partition", "0", "--offset", "9"], [9]),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) and str in map(type, each) else "",
)
def test_where_it_starts_and_stops(broker: Server, ten: str, options: list[str], expected: range) -> None:
    assert numbers(broker, ten, *options) == list(expected)


def test_formats(broker: Server, ten: str) -> None:
    assert read(broker, ten, "-o", "9", "-e", "--key-separator", " => ") == ["k9 => v9"]
    assert read(broker, ten, "-o", "9", "-e", "-f", r"%t/%p/%o/%k/%s/%T\n") == [f"{ten}/0/9/k9/v9/1700000009000"]
    assert read(broker, ten, "-o", "9", "-e", "--format", "hex")[0] == (
        f"{ten} partition 0 offset 9 2023-11-14T22:13:29.000Z"
    )
    assert read(broker, ten, "-o", "9", "-e", "--value-format", "hex") == ["7639"]
    (row,) = run(broker, "consume", ten, "-o", "9", "-e", "--json").lines
    assert row == {
        "topic": ten,
        "partition": 0,
        "offset": 9,
        "timestamp": 1_700_000_009_000,
        "key": "k9",
        "value": "v9",
        "headers": [],
    }


def test_bytes_come_out_as_they_went_in(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    picture = bytes(range(256))
    run(broker, "produce", topic, "--format", "raw", given=picture)
    assert run(broker, "consume", topic, "-e", "-f", "%s").out == picture
    run(broker, "consume", topic, "-e", "--value-format", "json").failed(
        1, f"partition 0 offset 0 of {topic} is not JSON"
    )


def test_several_topics_and_partitions(broker: Server, new_topic: NewTopicFunction) -> None:
    one, two = new_topic(3), new_topic(1)
    run(broker, "produce", one, "--partition", "1", given=b"a\nb\n")
    run(broker, "produce", one, "--partition", "2", given=b"c\n")
    run(broker, "produce", two, given=b"d\n")
    assert sorted(read(broker, one, two, "-e")) == ["a", "b", "c", "d"]
    assert sorted(read(broker, one, "-p", "1", "-p", "2", "-e", "--offset", "-1")) == ["b", "c"]


def test_it_follows_what_comes(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    run(broker, "produce", topic, given=b"old\n")
    with Process(broker, "consume", topic, "--offset", "-1") as process:
        assert process.read_line() == b"old\n"
        for number in range(3):
            run(broker, "produce", topic, given=b"new %d\n" % number)
            assert process.read_line() == b"new %d\n" % number
        process.signal(signal.SIGINT)
        assert process.end() == (130, b"", "")


def test_a_silence_ends_it(broker: Server, ten: str) -> None:
    assert len(read(broker, ten, "--from-beginning", "--timeout", "1s")) == 10
    done = run(broker, "consume", ten, "--from-beginning", "--timeout", "1s", "-n", "11")
    done.failed(1, "only 10 of 11 messages came")
    assert len(done.out.splitlines()) == 10


@pytest.mark.usefixtures("coordinators")
def test_a_group_goes_on_where_it_stopped_printing(broker: Server, ten: str) -> None:
    group = ["--group", unique_name("group"), "--from-beginning"]
    assert numbers(broker, ten, *group, "-n", "3") == [0, 1, 2]
    assert numbers(broker, ten, *group, "-n", "4") == [3, 4, 5, 6]
    assert numbers(broker, ten, *group, "--no-follow") == [7, 8, 9]
    assert numbers(broker, ten, *group, "--no-follow") == []


@pytest.mark.usefixtures("coordinators")
def test_what_could_not_be_shown_is_not_committed(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    run(broker, "produce", topic, given=b"1\n2\nthree\n4\n")
    group = ["--group", unique_name("group"), "--from-beginning", "--no-follow"]
    done = run(broker, "consume", topic, *group, "--value-format", "json")
    done.failed(1, f"partition 0 offset 2 of {topic} is not JSON")
    assert done.out == b"1\n2\n"
    assert read(broker, topic, *group) == ["three", "4"]


def test_without_a_group_nothing_is_committed(broker: Server, ten: str) -> None:
    assert numbers(broker, ten, "-e") == numbers(broker, ten, "-e")
    assert "bifrost-without-a-group" not in run(broker, "group", "list", "--json").out.decode()


def test_a_closed_pipe_ends_it_quietly(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    run(broker, "produce", topic, given=b"x" * 100 + b"\n" + (b"y" * 100 + b"\n") * 50_000)
    with Process(broker, "consume", topic, "-e") as process:
        assert process.read_line() == b"x" * 100 + b"\n"
        process.stdout.close()
        process.stdin.close()
        assert process.wait() == (141, "")


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["--partition", "7"], 1, "has no partition 7"),
        (["--offset", "11"], 1, "has no offset 11 yet"),
        (["--offset", "soon"], 2, "--offset: 'soon' is no offset"),
        (["--since", "soon"], 2, "--since: 'soon' is not a moment"),
        (["--since", "1m", "--from-beginning"], 2, "--from-beginning and --since contradict each other"),
        (["--since", "1m", "--until", "2m"], 2, "--since is not before --until"),
        (["--timeout", "soon"], 2, "--timeout: 'soon' is not a duration"),
        (["--group", "g", "--offset", "5"], 2, "a group decides itself where its members read; --offset cannot"),
        (["--group", "g", "--partition", "0"], 2, "--partition cannot"),
        (["--format", "jsno"], 2, "there is no format 'jsno'"),
        (["--format", "%x"], 2, "a template has no field %x"),
        (["--value-format", "jsn"], 2, "--value-format: there is no 'jsn'"),
        (["--group", "zz", "-X", "group.id=yy"], 2, "--group zz and group.id=yy contradict each other"),
        (["-X", "group.id=yy"], 2, "group.id alone does not make a member of a group"),
        (["--follow", "-e"], 2, "--follow and --exit contradict each other"),
        (["--json", "--format", "hex"], 2, "--json and --format hex contradict each other"),
        (["--set", "fetch.min.byte=1"], 2, "librdkafka has no setting fetch.min.byte"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) and str in map(type, each) else "",
)
def test_what_makes_no_sense(broker: Server, ten: str, options: list[str], code: int, problem: str) -> None:
    run(broker, "consume", ten, *options).failed(code, problem)


def test_an_unknown_topic(broker: Server, ten: str) -> None:
    done = run(broker, "consume", ten[:-1], "-e")
    done.failed(1, f"topic {ten[:-1]} does not exist")
    assert f"Did you mean {ten}?" in done.err


@pytest.mark.parametrize("name", [pytest.param("kafka", marks=pytest.mark.oracle), "bifrost"])
def test_it_waits_for_a_broker_that_comes_back(start_broker: StartBroker, name: str) -> None:
    server = start_broker(name)
    run(server, "topic", "create", "t", "--partitions", "1")
    run(server, "produce", "t", given=b"before\n")
    with Process(server, "consume", "t", "--from-beginning", "-n", "2") as process:
        assert process.read_line() == b"before\n"
        server.kill()
        server.start()
        eventually(lambda: stored_count(server, "t") == 1)
        run(server, "produce", "t", given=b"after\n")
        assert process.read_line() == b"after\n"
        assert process.end().code == 0
