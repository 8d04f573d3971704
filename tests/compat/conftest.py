"""The brokers and clients that every compat test runs with: each test body, each client, both brokers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.compat import wire
from tests.compat.cache import Unavailable
from tests.compat.clients.aiokafka_client import AioKafka
from tests.compat.clients.base import AdminClient, Client
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.driven import DrivenClient, FranzGo, Java, KafkaJs
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.kcat import Kcat
from tests.compat.members.flavours import Flavour
from tests.compat.questions.party import await_coordinators
from tests.compat.servers import BifrostServer, ForeignServer, PrivateServer, Server, SharedKafka, start_private

CLIENTS: dict[str, type[Client]] = {
    each.name: each for each in (Confluent, KafkaPython, AioKafka, Kcat, KafkaJs, Java, FranzGo)
}
FOREIGN = os.environ.get("BIFROST_TEST_BOOTSTRAP")
BROKERS: list[Any] = ["foreign"] if FOREIGN else [pytest.param("kafka", marks=pytest.mark.oracle), "bifrost"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.compat)
            # kafka-python reads a message definition when it is first used.
            item.add_marker(pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"))


def skip_without(error: Unavailable) -> None:
    pytest.skip(f"not available: {error}")


@pytest.fixture(scope="session", params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running broker; its topics are shared by all tests, which therefore use names of their own."""
    server = _start_shared(request.param, tmp_path_factory)
    yield server
    server.stop()


def _start_shared(name: str, tmp_path_factory: pytest.TempPathFactory) -> Server:
    if name == "foreign":
        assert FOREIGN is not None
        return ForeignServer(FOREIGN)
    if name == "bifrost":
        return BifrostServer(tmp_path_factory.mktemp("bifrost"))
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    try:
        return SharedKafka(run / "shared-kafka")
    except Unavailable as error:
        skip_without(error)
        raise


class StartBroker(Protocol):
    def __call__(self, name: str, *, advertised_port: int | None = None, **settings: str) -> PrivateServer: ...


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers that the test owns, by kind; they end with the test."""
    started: list[PrivateServer] = []

    def start(name: str, *, advertised_port: int | None = None, **settings: str) -> PrivateServer:
        try:
            server = start_private(
                name, tmp_path / f"{name}-{len(started)}", advertised_port=advertised_port, **settings
            )
        except Unavailable as error:
            skip_without(error)
            raise
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


def make_client(name: str, bootstrap: str) -> Client:
    """A client of that name, or a skip that says what this machine lacks."""
    try:
        return CLIENTS[name](bootstrap)
    except Unavailable as error:
        skip_without(error)
        raise


@pytest.fixture(scope="session", autouse=True)
def _driver_processes() -> Iterator[None]:
    yield
    DrivenClient.stop_drivers()
    Flavour.stop_hosts()


@pytest.fixture(params=sorted(CLIENTS))
def client(request: pytest.FixtureRequest, broker: Server) -> Client:
    return make_client(request.param, broker.bootstrap)


@pytest.fixture(params=sorted(name for name, each in CLIENTS.items() if issubclass(each, AdminClient)))
def admin(request: pytest.FixtureRequest, broker: Server) -> AdminClient:
    made = make_client(request.param, broker.bootstrap)
    assert isinstance(made, AdminClient)
    return made


@pytest.fixture
def all_clients(broker: Server) -> list[Client]:
    """Every client this machine has; the parametrised tests name the ones it lacks."""
    found = []
    for kind in CLIENTS.values():
        try:
            found.append(kind(broker.bootstrap))
        except Unavailable:
            continue
    return found


@pytest.fixture(scope="session")
def coordinators(broker: Server) -> None:
    """The topic of the groups is there and all its partitions are loaded."""
    await_coordinators(broker.bootstrap)


def unique_name(prefix: str = "compat") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


NewTopicFunction = Callable[..., str]


@pytest.fixture
def new_topic(broker: Server) -> NewTopicFunction:
    """Creates a topic of one's own: `new_topic(partitions, {config: value})`."""

    def create(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        name = unique_name()
        wire.create_topic(broker.bootstrap, name, partitions, configs)
        return name

    return create
