"""A rate is for the moves that it was given for: what operators set is there again afterwards."""

from __future__ import annotations

from bifrost.client.moves.run import MoveRun
from bifrost.client.moves.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Throttle,
    throttled_partitions,
)
from bifrost.types import TopicPartition
from tests.unit.client.moves.paper_cluster import PaperCluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def rates(value: str) -> dict[str, str]:
    return {FOLLOWER_RATE: value, LEADER_RATE: value}


def run_to_the_end(cluster: PaperCluster, run: MoveRun) -> list[TopicPartition]:
    run.step()
    cluster.arrive()
    assert run.step().is_over
    return run.finish()


def test_while_it_moves_both_sides_are_slow_and_afterwards_nothing_is_left() -> None:
    cluster = PaperCluster(4, {A0: (0, 1)})
    run = MoveRun(cluster.admin, {A0: (2, 1)}, rate=1000)
    run.step()
    assert cluster.throttles() == {
        "0": rates("1000"),
        "1": rates("1000"),
        "2": rates("1000"),
        "a": {FOLLOWER_REPLICAS: "0:2", LEADER_REPLICAS: "0:0,0:1"},
    }
    assert run_to_the_end(cluster, run) == []
    assert cluster.throttles() == {}


def test_who_only_watches_touches_nothing_and_is_told_what_is_left() -> None:
    cluster = PaperCluster(3, {A0: (0,)})
    cluster.configs = {"1": rates("77"), "a": {FOLLOWER_REPLICAS: "0:2"}}
    cluster.move({A0: (2,)})
    before = cluster.throttles()
    run = MoveRun(cluster.admin, {}, watched={A0: cluster.places[A0]})
    assert run_to_the_end(cluster, run) == [A0]
    assert cluster.throttles() == before


def test_an_unthrottled_move_leaves_an_operators_rates_alone() -> None:
    cluster = PaperCluster(3, {A0: (0,)})
    cluster.configs = {"0": rates("77"), "2": rates("78"), "a": {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"}}
    before = cluster.throttles()
    assert run_to_the_end(cluster, MoveRun(cluster.admin, {A0: (2,)})) == []
    assert cluster.throttles() == before


def test_an_operators_rates_and_lists_are_back_after_a_throttled_move() -> None:
    cluster = PaperCluster(3, {A0: (0,), A1: (1,)})
    cluster.configs = {"0": rates("77"), "1": {FOLLOWER_RATE: "78"}, "a": {FOLLOWER_REPLICAS: "1:0"}}
    before = cluster.throttles()
    run = MoveRun(cluster.admin, {A0: (2,)}, rate=1000)
    run.step()
    assert cluster.configs["0"] == cluster.configs["2"] == rates("1000")
    assert cluster.configs["1"] == {FOLLOWER_RATE: "78"}, "it has no part in this move"
    assert cluster.configs["a"][FOLLOWER_REPLICAS] == "1:0,0:2"
    run_to_the_end(cluster, run)
    assert cluster.throttles() == before


def test_a_topic_that_lists_all_replicas_is_not_told_of_single_ones() -> None:
    cluster = PaperCluster(3, {A0: (0,)})
    cluster.configs = {"a": {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"}}
    run = MoveRun(cluster.admin, {A0: (2,)}, rate=1000)
    run.step()
    assert cluster.configs["a"] == {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"}
    run_to_the_end(cluster, run)
    assert cluster.throttles() == {"a": {FOLLOWER_REPLICAS: "*", LEADER_REPLICAS: "*"}}


def test_a_command_that_was_interrupted_and_is_given_again_takes_away_what_it_had_set() -> None:
    cluster = PaperCluster(3, {A0: (0,)})
    MoveRun(cluster.admin, {A0: (2,)}, rate=1000).step()
    again = MoveRun(cluster.admin, {}, watched={A0: cluster.places[A0]}, rate=500)
    again.step()
    assert cluster.configs["2"] == rates("500")
    assert run_to_the_end(cluster, again) == []
    assert cluster.throttles() == {}


def test_of_two_throttled_moves_the_last_takes_the_rate_away() -> None:
    cluster = PaperCluster(3, {A0: (0,), B0: (0,)})
    first, second = (MoveRun(cluster.admin, {tp: (2,)}, rate=rate) for tp, rate in ((A0, 1000), (B0, 500)))
    first.step()
    second.step()
    cluster.arrive(A0)
    assert first.step().is_over
    first.finish()
    assert cluster.throttles() == {
        "0": rates("500"),
        "2": rates("500"),
        "b": {FOLLOWER_REPLICAS: "0:2", LEADER_REPLICAS: "0:0"},
    }
    cluster.arrive(B0)
    assert second.step().is_over
    second.finish()
    assert cluster.throttles() == {}


def test_a_broker_that_is_away_is_not_given_a_rate_that_nobody_could_take_back() -> None:
    cluster = PaperCluster(3, {A0: (0, 1)})
    cluster.away = {1}
    throttle = Throttle(cluster.admin, 1000)
    throttle.put_on(cluster.layout(), {A0: (0, 2)})
    assert sorted(throttle.before) == [0, 2]
    assert "1" not in cluster.configs


def test_partitions_that_are_listed_one_by_one_are_known_to_be_throttled() -> None:
    cluster = PaperCluster(3, {A0: (0,), A1: (0,), B0: (0,)})
    cluster.configs = {"a": {FOLLOWER_REPLICAS: "1:2"}, "b": {LEADER_REPLICAS: "*"}}
    assert throttled_partitions(cluster.admin, [A0, A1, B0]) == [A1]
