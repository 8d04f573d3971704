"""A real node for each module of tests, in a thread of this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from bifrost.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from bifrost.testing import Cluster
from tests.integration.wire import Wire

_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its data are below a directory of its own, where nobody else comes and goes."""
    with Cluster(data_dir=tmp_path_factory.mktemp("cluster") / "data") as running:
        yield running


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster.bootstrap) as connection:
        yield connection


def create_topic(wire: Wire, name: str, partitions: int = 1, **configs: object) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()],
    )
    (result,) = wire.call(5, CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics
    assert result.error_code == 0, result.error_message


@pytest.fixture
def topic(cluster: Cluster) -> Callable[..., str]:
    """Makes a topic of its own for the test and returns its name."""

    def make(partitions: int = 1, **configs: object) -> str:
        name = f"topic-{next(_numbers)}"
        with Wire(cluster.bootstrap) as connection:
            create_topic(connection, name, partitions, **configs)
        return name

    return make
