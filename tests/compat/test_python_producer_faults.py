"""bifrost.Producer when things go wrong: brokers die, programs are interrupted, nobody says goodbye."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bifrost import DeliveryError, Producer, Report, TimedOutError
from tests.compat import oracle, wire
from tests.compat.clients.base import LATEST
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import BROKERS, FOREIGN, NewTopicFunction, StartBroker
from tests.compat.proxy import CuttingProxy
from tests.compat.servers import Server
from tests.waiting import eventually

PARTITIONS = 3
PATIENCE_S = 90

pytestmark = pytest.mark.skipif(bool(FOREIGN), reason="needs brokers that may be killed")


def counts(bootstrap: str, topic: str) -> int:
    ends = Confluent(bootstrap).offsets(topic, range(PARTITIONS), LATEST)
    return sum(end or 0 for end in ends.values())


@pytest.mark.parametrize("kind", BROKERS)
def test_a_broker_that_dies_while_it_is_written_to(kind: str, start_broker: StartBroker) -> None:
    """Nothing is lost, repeated or overtaken, and the program that sends knows nothing of it."""
    server = start_broker(kind, **({"flush_policy": "os"} if kind == "bifrost" else {}))
    wire.create_topic(server.bootstrap, "t", PARTITIONS, None)
    done = threading.Event()
    sent = [0] * PARTITIONS
    producers: list[Producer] = []

    def send() -> None:
        with Producer(server.bootstrap, max_queued=2_000) as producer:
            producers.append(producer)
            while not done.is_set():
                for partition in range(PARTITIONS):
                    producer.post("t", str(sent[partition]), partition=partition)
                    sent[partition] += 1

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    for _ in range(2):
        await_progress(producers)
        server.kill()
        server.start()
    await_progress(producers)
    done.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    report = producers[0].report()
    assert [each.acknowledged for each in report.partitions] == sent
    assert [each.stored for each in report.partitions] == sent
    found = Confluent(server.bootstrap).consume("t", dict.fromkeys(range(PARTITIONS), 0), sum(sent))
    for partition in range(PARTITIONS):
        values = [int(each.value or b"") for each in found if each.partition == partition]
        assert values == list(range(sent[partition]))


def await_progress(producers: list[Producer]) -> None:
    """Wait until more has been acknowledged than the producer may have under way."""

    def acknowledged() -> int:
        return sum(producer.report(stored=False).acknowledged for producer in producers)

    before = acknowledged()
    eventually(lambda: acknowledged() >= before + 3_000, "3,000 more are acknowledged")


def send_over_cuts(broker: Server, topic: str, **options: Any) -> tuple[Report, list[int]]:
    """Sends while requests reach the broker whose answers do not; what the producer reports, and what is stored."""
    with CuttingProxy(broker.bootstrap, seed=1, cuts=8, after_bytes=(2_000, 12_000)) as proxy:
        producer = Producer(proxy.bootstrap, config={"batch.size": 1_000}, linger_ms=0, **options)
        for number in range(600):
            producer.post(topic, f"{number:0100}", partition=0)
        with contextlib.suppress(DeliveryError):
            producer.close()
        assert proxy.cuts_made > 0
    client = Confluent(broker.bootstrap)
    end = client.offsets(topic, [0], LATEST)[0]
    found = client.consume(topic, {0: 0}, end or 0)
    return producer.report(stored=False), [int(each.value or b"") for each in found]


def test_lost_answers_lead_to_no_repetition(broker: Server, new_topic: NewTopicFunction) -> None:
    report, stored = send_over_cuts(broker, new_topic())
    assert stored == list(range(600))
    assert (report.sent, report.acknowledged, report.failed) == (600, 600, 0)


def test_what_is_acknowledged_by_the_leader_alone_may_be_repeated_but_is_there(
    broker: Server, new_topic: NewTopicFunction
) -> None:
    """Also the proof that the cuts are where they hurt."""
    report, stored = send_over_cuts(broker, new_topic(), acks=1)
    assert sorted(set(stored)) == list(range(600))
    assert len(stored) > 600
    assert report.acknowledged == 600


def test_at_most_once_repeats_nothing(broker: Server, new_topic: NewTopicFunction) -> None:
    report, stored = send_over_cuts(broker, new_topic(), delivery="at_most_once")
    assert len(stored) == len(set(stored))
    assert report.sent == 600
    assert report.failed > 0
    assert report.acknowledged + report.failed == 600
    assert len(stored) >= report.acknowledged


@pytest.mark.parametrize("kind", BROKERS)
def test_a_broker_that_does_not_come_back(kind: str, start_broker: StartBroker) -> None:
    server = start_broker(kind)
    wire.create_topic(server.bootstrap, "t", PARTITIONS, None)
    producer = Producer(server.bootstrap, timeout_s=2)
    for _ in range(50):
        producer.send("t", b"stored")
    producer.flush(PATIENCE_S)
    server.kill()
    lost = producer.send("t", b"lost")
    assert isinstance(lost.exception(PATIENCE_S), TimedOutError)
    for _ in range(9):
        producer.send("t", b"lost")
    with pytest.raises(DeliveryError, match=f"10 of 60 messages.*Is {server.bootstrap} running") as raised:
        producer.close()
    assert raised.value.report is not None
    assert (raised.value.report.acknowledged, raised.value.report.failed) == (50, 10)
    assert producer.report(timeout=1).stored is None
    server.start()
    assert producer.report().stored == counts(server.bootstrap, "t") == 50


def test_giving_up_what_is_not_acknowledged(broker: Server) -> None:
    """An address where nobody is yet: closing with a limit gives messages up and says how many."""
    relay = oracle.free_port()
    producer = Producer(f"127.0.0.1:{relay}", connect_timeout_s=0.2)
    with pytest.raises(ConnectionError):
        producer.send("t", b"")
    producer.close(0.1)
    assert repr(producer) == f"<Producer to 127.0.0.1:{relay}: 0 sent, closed>"


INTERRUPTED = """
    import json, sys
    from bifrost import Producer

    producer = Producer(sys.argv[1], max_queued=500)
    calls = 0
    print("ready", flush=True)
    try:
        with producer:
            while True:
                producer.{way}(sys.argv[2], str(calls))
                calls += 1
                if calls == 1000:
                    print("going", flush=True)
    except KeyboardInterrupt:
        report = producer.report()
        print(json.dumps([calls, report.sent, report.acknowledged, report.failed, report.stored]), flush=True)
"""


@pytest.mark.parametrize("way", ["post", "send"])
def test_an_interrupt_in_the_middle_is_accounted_for(way: str, broker: Server, new_topic: NewTopicFunction) -> None:
    rng = random.Random(way)
    for _ in range(4):
        topic = new_topic(PARTITIONS)
        program = textwrap.dedent(INTERRUPTED).format(way=way)
        with start(program, broker.bootstrap, topic) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert process.stdout.readline() == "going\n"
            time.sleep(rng.random() / 10)
            process.send_signal(signal.SIGINT)
            calls, sent, acknowledged, failed, stored = json.loads(process.stdout.readline())
            assert process.wait(PATIENCE_S) == 0
        assert sent in {calls, calls + 1}, "the call that was interrupted may have sent its message or not"
        assert (acknowledged, failed, stored) == (sent, 0, sent)
        assert counts(broker.bootstrap, topic) == sent


def test_a_program_that_just_ends_loses_nothing(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(PARTITIONS)
    program = textwrap.dedent("""
        import sys
        from bifrost import Producer

        producer = Producer(sys.argv[1], linger_ms=1000)
        for number in range(5000):
            producer.post(sys.argv[2], str(number))
    """)
    with start(program, broker.bootstrap, topic) as process:
        assert process.wait(PATIENCE_S) == 0
    assert counts(broker.bootstrap, topic) == 5_000


@contextlib.contextmanager
def start(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program that does not outlive its test, whatever happens in either."""
    command = [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()
