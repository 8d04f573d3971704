"""Clusters of processes for faults. Every test here takes seconds of many processes, so few run beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.load import EVERYONE
from tests.faults.realm import Realm

StartRealm = Callable[..., Realm]

_SECOND_CHANCE = pytest.mark.flaky(reruns=1, only_rerun="never came true")
"""For what did not happen within a minute: six processes need a disk and two cores that do not stand still for that
long themselves. Who has lost or doubled anything, or has said what is not so, gets one chance."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(_SECOND_CHANCE)
            # kafka-python reads a message definition when it is first used.
            for name in ("read_text", "open_text"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{name} is deprecated:DeprecationWarning"))


@pytest.fixture
def start_realm(tmp_path: Path) -> Iterator[StartRealm]:
    """Starts clusters that end with the test: `start_realm(links="proxy", **settings)`."""
    started: list[Realm] = []

    def start(**options: object) -> Realm:
        realm = Realm(tmp_path / f"realm-{len(started)}", **options)  # type: ignore[arg-type]
        started.append(realm)
        return realm.__enter__()

    yield start
    for realm in started:
        realm.close()


@pytest.fixture(params=[("confluent", "python"), pytest.param(EVERYONE, marks=pytest.mark.thorough)], ids="+".join)
def clients(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Who writes and reads: JVMs take longer to start than a short test does, so there it is done once without them."""
    names: tuple[str, ...] = request.param
    return names


@pytest.fixture
def realm(start_realm: StartRealm) -> Realm:
    return start_realm()


@pytest.fixture(params=["proxy", pytest.param("namespaces", marks=pytest.mark.thorough)])
def linked(start_realm: StartRealm, request: pytest.FixtureRequest) -> Realm:
    """One whose links can be cut, by a proxy and, where that can be had, by the kernel."""
    return start_realm(links=request.param)


@pytest.fixture
def apart(start_realm: StartRealm) -> Realm:
    """One whose nodes have a network of the kernel's between them; skips where it cannot be had."""
    return start_realm(links="namespaces")
