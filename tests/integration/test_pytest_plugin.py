"""The pytest plugin in runs of pytest of its own: who gets which cluster, what is left behind, and what errors say."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.inner_pytest import InnerPytest, inner

__all__ = ["inner"]


def is_served(bootstrap: str) -> bool:
    host, port = bootstrap.rsplit(":", 1)
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_tests_share_a_cluster_and_no_topic(
    inner: InnerPytest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    first, second, third = inner.passes(
        """
        import pytest

        @pytest.mark.parametrize("n", [1, 2, 3])
        def test_it(bifrost_topic, bifrost_bootstrap, n):
            bifrost_topic.produce([("k", {"n": n})])
            bifrost_topic.expect([("k", {"n": n})])
            assert bifrost_topic.bootstrap == bifrost_bootstrap
            print(f"\\nsaid {bifrost_bootstrap}/{bifrost_topic}")
        """,
        passed=3,
    )
    bootstraps, topics = zip(*(said.split("/") for said in (first, second, third)))
    assert len(set(bootstraps)) == 1
    assert len(set(topics)) == 3
    assert topics[0].startswith("test_it-1-"), "a topic is named after its test"
    assert not is_served(bootstraps[0])
    assert os.listdir(tmp_path) == [], "data of a cluster are removed with it"


def test_a_run_that_asks_for_nothing_imports_nothing(inner: InnerPytest) -> None:
    (modules,) = inner.passes(
        """
        import sys

        def test_it():
            ours = sorted(name for name in sys.modules if name.startswith("bifrost"))
            heavy = {"confluent_kafka", "msgspec", "rich", "typer", "uvloop"} & set(sys.modules)
            print("\\nsaid", ",".join([*ours, *heavy]))
        """,
        passed=1,
    )
    assert modules == "bifrost,bifrost.testing,bifrost.testing.plugin"


def test_pytest_leaves_the_asserts_of_the_broker_alone(inner: InnerPytest, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(marks='import pytest; pytest.register_assert_rewrite("bifrost")')  # as for an installed wheel
    (loader,) = inner.passes(
        """
        def test_it(bifrost_cluster):
            import bifrost.broker.node
            print("\\nsaid", type(bifrost.broker.node.__loader__).__name__)
        """,
        "-p",
        "marks",
        passed=1,
    )
    assert loader == "SourceFileLoader"


def test_a_marker_chooses_the_cluster(inner: InnerPytest) -> None:
    said = inner.passes(
        """
        import pytest

        pytestmark = pytest.mark.bifrost(settings={"num.partitions": 4})

        @pytest.fixture(scope="session")
        def on_it(bifrost_bootstrap):
            return bifrost_bootstrap

        def say(topic, on_it):
            assert topic.bootstrap == on_it
            print(f"\\nsaid {topic.name[5]}/{topic.bootstrap}/{len(topic.offsets())}")

        def test_a(bifrost_topic, on_it):
            say(bifrost_topic, on_it)

        @pytest.mark.bifrost(settings={"num.partitions": "2"})
        def test_b(bifrost_topic, on_it):
            say(bifrost_topic, on_it)

        @pytest.mark.bifrost(settings={"num_partitions": 4})
        class TestC:
            def test_c(self, bifrost_topic, on_it):
                say(bifrost_topic, on_it)

            @pytest.mark.bifrost(settings={"log.segment.bytes": 1 << 20})
            def test_d(self, bifrost_topic, on_it):
                say(bifrost_topic, on_it)
        """,
        passed=4,
    )
    clusters = {name: (bootstrap, partitions) for name, bootstrap, partitions in (each.split("/") for each in said)}
    assert {name: partitions for name, (_, partitions) in clusters.items()} == {"a": "4", "b": "2", "c": "4", "d": "4"}
    assert clusters["a"] == clusters["c"], "equal settings, one cluster"
    assert len({bootstrap for bootstrap, _ in clusters.values()}) == 3


def test_a_marker_asks_for_several_brokers(inner: InnerPytest) -> None:
    inner.passes(
        """
        import pytest

        @pytest.mark.bifrost(brokers=2)
        def test_two(bifrost_cluster, bifrost_topic_factory):
            assert len(bifrost_cluster.brokers) == 2
            assert len(bifrost_cluster.bootstrap.split(",")) == 2
            topic = bifrost_topic_factory(partitions=4)
            stored = topic.produce([str(n) for n in range(20)])
            topic.expect([record.value for record in stored], ordered=False)
            print("\\nsaid it")
        """,
        passed=1,
    )


def test_a_marker_leaves_names_of_tests_alone(inner: InnerPytest) -> None:
    result = inner.run(
        """
        import pytest

        @pytest.mark.bifrost(settings={"num.partitions": 4})
        def test_it(bifrost_topic):
            pass
        """
    )
    result.stdout.fnmatch_lines(["PASSED test_inner.py::test_it"])


def test_a_wish_that_cannot_be_granted_is_one_sentence(inner: InnerPytest) -> None:
    result = inner.run(
        """
        import pytest

        @pytest.mark.bifrost(brokers=300)
        def test_brokers(bifrost_topic):
            pass

        @pytest.mark.bifrost(settings={"num.partition": 4})
        def test_name(bifrost_topic):
            pass

        @pytest.mark.bifrost(settings={"num.partitions": "many"})
        def test_value(bifrost_topic):
            pass
        """
    )
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "no cluster with brokers=300: at most 100 brokers on one machine, not 300",
            "*unknown setting num.partition; did you mean num.partitions?",
            "no cluster with num.partitions=many: *",
        ]
    )
    result.stdout.no_re_match_line("Traceback|During handling")


def test_a_wish_that_makes_no_sense_is_one_sentence(inner: InnerPytest) -> None:
    result = inner.run(
        """
        import pytest

        @pytest.mark.bifrost(4)
        def test_number(bifrost_topic):
            pass

        @pytest.mark.bifrost(foo=3)
        def test_name(bifrost_topic):
            pass

        def test_other(bifrost_topic):
            pass
        """
    )
    result.assert_outcomes(errors=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "test_inner.py::test_number: @pytest.mark.bifrost takes names only, such as *",
            "test_inner.py::test_name: @pytest.mark.bifrost knows brokers and settings, but not foo",
        ]
    )
    result.stdout.no_re_match_line("Traceback|During handling")


def test_what_cannot_be_sent_is_told_and_nothing_is_sent(inner: InnerPytest) -> None:
    inner.passes(
        """
        import pytest

        def test_it(bifrost_topic):
            with pytest.raises(TypeError, match="record 1: <object object at .* cannot be sent: give text, bytes"):
                bifrost_topic.produce(["fine", object()])
            assert bifrost_topic.read() == []
        """,
        passed=1,
    )


def test_the_marker_does_not_pretend_to_work_with_unittest(inner: InnerPytest) -> None:
    result = inner.run(
        """
        import unittest
        import pytest

        @pytest.mark.usefixtures("bifrost_cluster")
        class Test(unittest.TestCase):
            @pytest.mark.bifrost(settings={"num.partitions": 4})
            def test_it(self):
                pass

            def test_other(self):
                pass
        """
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.bifrost works on functions and plain classes, not on unittest's"])


def test_the_ini_file_sets_what_holds_for_all(inner: InnerPytest) -> None:
    test = """
        import pytest

        def test_it(bifrost_topic):
            assert len(bifrost_topic.offsets()) == 5

        @pytest.mark.bifrost(settings={"num.partitions": 2})
        def test_other(bifrost_topic):
            assert len(bifrost_topic.offsets()) == 2
        """
    inner.passes(test, ini="bifrost_settings =\n  num.partitions = 5\n  log.segment.bytes=1048576", passed=2)
    result = inner.run(test, ini="bifrost_settings = num.partitions")
    result.stdout.fnmatch_lines(["*bifrost_settings: 'num.partitions' is not NAME=VALUE"])


def test_a_failure_shows_the_difference_and_the_test_only(inner: InnerPytest) -> None:
    result = inner.run(
        """
        def test_it(bifrost_topic):
            bifrost_topic.produce([("a", "1"), ("b", "two")])
            bifrost_topic.expect([("a", "1"), ("b", "2"), ("c", "3")], timeout=0.3)

        def test_count(bifrost_topic):
            bifrost_topic.produce([("a", "1")])
            bifrost_topic.read(2, timeout=0.3)
        """
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            ">*bifrost_topic.expect(*",
            "E*records of test_it-* are not as expected: 1 different, 1 missing; 1 of 3 right (waited 0.3 s)",
            "E*partition 0",
            "E*offset 0  key 'a'  value '1'",
            "E*~ offset 1     key 'b'  value 'two'",
            "E*expected #1  key 'b'  value '2'",
            "E*- #2  key 'c'  value '3'  <- missing",
            "test_inner.py:3: AssertionError",
            "E*2 records of test_count-* awaited, 1 there after 0.3 s",
            "E*partition 0 offset 0  key 'a'  value '1'",
        ]
    )
    result.stdout.no_fnmatch_line("*topic.py*")


def test_topics_of_the_factory_last_for_the_run(inner: InnerPytest) -> None:
    inner.passes(
        """
        import pytest

        @pytest.fixture(scope="module")
        def orders(bifrost_topic_factory):
            topic = bifrost_topic_factory("orders", partitions=3, config={"cleanup.policy": "compact"})
            topic.produce([("k", "v")])
            return topic

        @pytest.mark.parametrize("n", [1, 2])
        def test_it(orders, n):
            assert orders.name.startswith("orders-")
            assert len(orders.offsets()) == 3
            orders.expect([("k", "v")])
        """,
        passed=2,
    )


WHERE = """
    import os
    import pytest

    @pytest.mark.parametrize("n", range(6))
    def test_it(bifrost_topic, n):
        bifrost_topic.produce([f"{n}"])
        bifrost_topic.expect([f"{n}"])
        print(f"\\nsaid {os.environ['PYTEST_XDIST_WORKER']}/{bifrost_topic.bootstrap}/{bifrost_topic.name}")

    @pytest.mark.bifrost(settings={"num.partitions": 2})
    def test_other(bifrost_topic):
        assert len(bifrost_topic.offsets()) == 2
    """


def test_each_worker_of_xdist_has_its_own(inner: InnerPytest) -> None:
    said = [each.split("/") for each in inner.passes(WHERE, "-n", "2", passed=7)]
    by_worker = {worker: {bootstrap for name, bootstrap, _ in said if name == worker} for worker, _, _ in said}
    assert set(map(len, by_worker.values())) == {1}
    assert len({bootstrap for _, bootstrap, _ in said}) == len(by_worker)
    assert len({topic for _, _, topic in said}) == 6


@pytest.mark.parametrize(("option", "ini"), [(["--bifrost-shared"], ""), ([], "bifrost_shared = true")])
def test_workers_may_share_one(
    inner: InnerPytest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: list[str], ini: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    said = [each.split("/") for each in inner.passes(WHERE, "-n", "2", *option, ini=ini, passed=7)]
    ((shared,), topics) = {bootstrap for _, bootstrap, _ in said}, {topic for _, _, topic in said}
    assert len(topics) == 6
    assert not is_served(shared), "it ends with the run"
    assert os.listdir(tmp_path) == []


def test_an_address_where_nobody_is_fails_every_test_at_once(inner: InnerPytest) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening: refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = inner.run(
            """
            import pytest

            @pytest.mark.parametrize("n", range(20))
            def test_it(bifrost_topic, n):
                pass
            """,
            f"--bifrost-bootstrap={address}",
        )
    result.assert_outcomes(errors=20)
    result.stdout.fnmatch_lines([f"bifrost: tests use the cluster at {address}", f"*{address} (connection refused)*"])
    result.stdout.no_fnmatch_line("*longer timeout*")
    assert result.duration < 60, "waits once, not for each test"
