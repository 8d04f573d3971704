"""Fixtures for pytest, installed with the distribution: a broker when a test asks for one, nothing before.

Every run of pytest on the machine imports this file, so it imports nothing but pytest. Under pytest-xdist each worker
has a broker of its own, unless the run asks for a shared one; then the process that distributes the tests holds it,
and it cannot outlive the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from bifrost.testing.cluster import Cluster
    from bifrost.testing.foreign import ForeignCluster
    from bifrost.testing.pool import Pool, Wish
    from bifrost.testing.topic import Topic

MARKER = (
    "bifrost(brokers=1, settings={}): give the test a cluster with these settings, under Kafka's names; "
    "tests that ask for the same share it"
)
_SHARED = "bifrost_bootstrap"
_pool_key = pytest.StashKey["Pool"]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    _keep_asserts_plain(pluginmanager)
    group = parser.getgroup("bifrost", "Bifrost: a broker for your tests")
    group.addoption(
        "--bifrost-bootstrap",
        metavar="HOST:PORT",
        help="Run the tests against this cluster, such as Apache Kafka, instead of starting one. Topics are deleted"
        " after each test; tests that need other settings than it has are skipped.",
    )
    group.addoption(
        "--bifrost-shared",
        action="store_true",
        default=None,
        help="Under pytest-xdist, let all workers use one broker; otherwise each has its own.",
    )
    parser.addini("bifrost_shared", "The same as --bifrost-shared, for every run.", type="bool", default=False)
    parser.addini(
        "bifrost_settings",
        "Settings of the clusters that tests start, one NAME=VALUE on a line, under Kafka's names.",
        type="linelist",
        default=[],
    )


def _keep_asserts_plain(pluginmanager: pytest.PytestPluginManager) -> None:
    """Takes this distribution off the list of those whose asserts pytest rewrites, which is every one with a plugin.

    The asserts here are a broker's and no test's. Rewriting them would take longer than everything else up to the first
    green test, and cost the broker on every request. pytest has no public way to say so for a whole package; should
    the private one go away, the price is only that time.
    """
    marked = getattr(getattr(pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("bifrost")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


def pytest_report_header(config: pytest.Config) -> str | None:
    address = config.getoption("bifrost_bootstrap")
    return f"bifrost: tests use the cluster at {address}" if address else None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist may be ended as soon as it has said that it is finished, which comes after this."""
    if hasattr(session.config, "workerinput"):
        _close(session.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    _close(config)


def _close(config: pytest.Config) -> None:
    pool = config.stash.get(_pool_key, None)
    if pool is not None:
        pool.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist is about to start a worker; this is the process that outlives all of them."""
    config = node.config
    if not config.getoption("bifrost_bootstrap") and (
        config.getoption("bifrost_shared") or config.getini("bifrost_shared")
    ):
        from bifrost.testing.pool import Wish

        node.workerinput[_SHARED] = _pool(config).get(Wish()).bootstrap


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A wish becomes a parameter of the session's fixture, so that fixtures of any scope may build on it."""
    marks = list(metafunc.definition.iter_markers("bifrost"))
    if marks and "bifrost_cluster" in metafunc.fixturenames:
        wish = _wish(marks)  # or what is wrong with it: that is for this test to say, when it runs
        hidden: Any = getattr(
            pytest, "HIDDEN_PARAM", str(wish)
        )  # the name of the test stays as it is, since pytest 8.4
        metafunc.parametrize("bifrost_cluster", [wish], indirect=True, ids=[hidden], scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture: a wish that makes no sense fails its own test alone.

    Tests that pytest gives no parameters, those of unittest, would get the run's cluster whatever they ask for.
    """
    if "bifrost_cluster" in getattr(item, "fixturenames", ()) and next(item.iter_markers("bifrost"), None) is not None:
        given = getattr(item, "callspec", None)
        if given is None or "bifrost_cluster" not in given.params:
            pytest.fail("@pytest.mark.bifrost works on functions and plain classes, not on unittest's", pytrace=False)
        wish = given.params["bifrost_cluster"]
        if isinstance(wish, str):
            pytest.fail(f"{item.nodeid}: @pytest.mark.bifrost {wish}", pytrace=False)


def _wish(marks: list[pytest.Mark]) -> Wish | str:
    """What the marks ask for, or what is wrong with them."""
    from bifrost.testing.pool import Wish

    if any(mark.args for mark in marks):
        return 'takes names only, such as settings={"num.partitions": 4}'
    try:
        return Wish.of(mark.kwargs for mark in reversed(marks))
    except ValueError as error:
        return str(error)


def _pool(config: pytest.Config) -> Pool:
    if _pool_key not in config.stash:
        from bifrost.testing.pool import Pool

        config.stash[_pool_key] = Pool(
            existing=config.getoption("bifrost_bootstrap"),
            shared=getattr(config, "workerinput", {}).get(_SHARED),
            settings=_ini_settings(config),
        )
    return config.stash[_pool_key]


def _ini_settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for line in config.getini("bifrost_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"bifrost_settings: {line!r} is not NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


@pytest.fixture(scope="session")
def bifrost_cluster(request: pytest.FixtureRequest) -> Cluster | ForeignCluster:
    """The cluster of this run, or the one that the test's `bifrost` marker asks for. Shared: use topics of your own."""
    from bifrost.client.errors import BifrostError
    from bifrost.testing.pool import CannotGrantError, NotTheseError, Wish

    try:
        return _pool(request.config).get(getattr(request, "param", Wish()))
    except (CannotGrantError, NotTheseError, BifrostError) as error:
        problem = error
    if isinstance(problem, NotTheseError):
        pytest.skip(str(problem))
    pytest.fail(str(problem), pytrace=False)  # out here, too


@pytest.fixture(scope="session")
def bifrost_bootstrap(bifrost_cluster: Cluster | ForeignCluster) -> str:
    """What clients call `bootstrap.servers`."""
    return bifrost_cluster.bootstrap


class TopicFactory(Protocol):
    """Makes topics with names of their own; they end with the fixture that made them."""

    def __call__(
        self, stem: str = ..., *, partitions: int | None = None, config: Mapping[str, object] | None = None
    ) -> Topic: ...


@pytest.fixture(scope="session")
def bifrost_topic_factory(request: pytest.FixtureRequest, bifrost_bootstrap: str) -> Iterator[TopicFactory]:
    """Makes topics that last until the end of the run, also for fixtures of a wider scope than one test."""
    yield from _factory(_pool(request.config), bifrost_bootstrap, "topic")


@pytest.fixture
def bifrost_topic(request: pytest.FixtureRequest, bifrost_bootstrap: str) -> Iterator[Topic]:
    """A fresh topic for this test alone, with the cluster's default number of partitions."""
    for make in _factory(_pool(request.config), bifrost_bootstrap, request.node.name):
        yield make()


def _factory(pool: Pool, bootstrap: str, default_stem: str) -> Iterator[TopicFactory]:
    made: list[Topic] = []

    def make(
        stem: str = default_stem, *, partitions: int | None = None, config: Mapping[str, object] | None = None
    ) -> Topic:
        topic = pool.new_topic(bootstrap, stem, partitions=partitions, config=config)
        made.append(topic)
        return topic

    yield make
    for topic in made:
        pool.delete_topic(topic)
