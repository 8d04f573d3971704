"""What `delivery=` promises holds when the broker dies, and when the consumer does: without a line of the application.

at least once: nothing is lost, though some may come twice; at most once: nothing comes twice, though some may be lost.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bifrost.client.reader import FETCH_MESSAGES
from tests.compat import wire
from tests.compat.conftest import FOREIGN, StartBroker
from tests.compat.questions.party import await_coordinators
from tests.compat.reader_process import LAST
from tests.compat.readers import numbers, write
from tests.compat.servers import PrivateServer
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(FOREIGN is not None, reason="kills brokers")

MESSAGES = 1500
PARTITIONS = 2
DEATHS = (70, 230, 390, 140)
"""How many messages a reader lives to handle: each time, others of those that it has fetched are left over."""


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.oracle), "bifrost"])
def own_broker(request: pytest.FixtureRequest, start_broker: StartBroker) -> PrivateServer:
    server = start_broker(request.param)
    await_coordinators(server.bootstrap)
    return server


class Readers:
    """Programs that read for one group, one after the other, and the file in which they note what they handled."""

    def __init__(self, server: PrivateServer, path: Path, protocol: str, delivery: str) -> None:
        self._path = path
        self._options = [server.bootstrap, "t", "g", protocol, delivery, str(path)]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", "tests.compat.reader_process", *self._options])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def handled(self) -> list[bytes]:
        return self._path.read_bytes().splitlines() if self._path.exists() else []

    def await_more(self, count: int) -> None:
        assert self.process is not None
        goal = len(self.handled()) + count
        eventually(lambda: len(self.handled()) >= goal or self.process.poll() is not None, f"{goal} messages")
        assert self.process.poll() is None, "it ended before it was expected to"


@pytest.fixture
def readers(own_broker: PrivateServer, tmp_path: Path, protocol: str, delivery: str) -> Iterator[Readers]:
    made = Readers(own_broker, tmp_path / "handled", protocol, delivery)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


@pytest.mark.parametrize(
    ("delivery", "protocol"),
    [
        ("at_least_once", "classic"),
        ("at_most_once", "consumer"),
        pytest.param("at_least_once", "consumer", marks=pytest.mark.thorough),
        pytest.param("at_most_once", "classic", marks=pytest.mark.thorough),
    ],
)
def test_the_promise_holds_when_brokers_and_consumers_are_killed(
    own_broker: PrivateServer, readers: Readers, delivery: str
) -> None:
    wire.create_topic(own_broker.bootstrap, "t", PARTITIONS)
    for partition in range(PARTITIONS):
        write(own_broker.bootstrap, "t", numbers(MESSAGES, MESSAGES * partition), partition)
    readers.start()
    readers.await_more(200)
    own_broker.kill()
    own_broker.start()
    readers.await_more(FETCH_MESSAGES + 200)  # more than it can have had already
    deaths = DEATHS if own_broker.name == "bifrost" else DEATHS[:2]
    for more in deaths:
        readers.kill()
        readers.start()
        readers.await_more(more)
    for partition in range(PARTITIONS):
        write(own_broker.bootstrap, "t", [LAST], partition)
    assert readers.process is not None
    assert readers.process.wait(120) == 0

    handled = readers.handled()
    everything = set(numbers(MESSAGES * PARTITIONS))
    assert set(handled) <= everything
    if delivery == "at_least_once":
        assert set(handled) == everything
    else:
        assert len(handled) == len(set(handled))
        lost = len(everything) - len(handled)
        assert lost <= 100 * len(deaths), "a death loses a moment's messages, not all that was fetched"
