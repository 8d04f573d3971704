"""Heartbeats that make no sense, and which error they get: the first check that fails names it."""

from __future__ import annotations

from typing import Any

import pytest

from bifrost.errors import ErrorCode

from .stand_ins import Shard, error_of

NONSENSE: list[dict[str, Any]] = [
    {"member_id": ""},
    {"member_id": " \t"},
    {"group_id": ""},
    {"group_id": "  "},
    {"instance_id": ""},
    {"rack_id": " "},
    {"rebalance_timeout_ms": -1},
    {"topic_partitions": None},
    {"subscribed_topic_names": None},
    {"member_epoch": -3},
    {"member_epoch": -2},
    {"member_epoch": -1, "member_id": ""},
    {"member_epoch": 5, "member_id": ""},
]


@pytest.mark.parametrize("fields", NONSENSE)
def test_nonsense_is_an_invalid_request(fields: dict[str, Any]) -> None:
    shard = Shard()
    assert error_of(lambda: shard.join(**({"member_id": "a"} | fields))) is ErrorCode.INVALID_REQUEST
    assert not shard.journal.batches


def test_who_joins_must_own_nothing() -> None:
    shard = Shard()
    owned = shard.owned({"orders": {0}})
    assert error_of(lambda: shard.join("a", topic_partitions=owned)) is ErrorCode.INVALID_REQUEST


def test_who_joins_needs_names_or_an_expression() -> None:
    shard = Shard()
    assert shard.join("a", subscribed_topic_names=None, subscribed_topic_regex="orders").error_code == 0
    assert shard.join("b", subscribed_topic_names=[]).error_code == 0


def test_an_unknown_assignor_is_refused() -> None:
    shard = Shard()
    assert error_of(lambda: shard.join("a", server_assignor="sticky")) is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert error_of(lambda: shard.beat("a", 1, server_assignor="")) is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_nonsense_is_found_before_the_assignor_and_the_group() -> None:
    shard = Shard()
    refused = error_of(lambda: shard.join("a", server_assignor="sticky", rebalance_timeout_ms=-1))
    assert refused is ErrorCode.INVALID_REQUEST
    assert error_of(lambda: shard.beat("a", -5)) is ErrorCode.INVALID_REQUEST


def test_version_0_lets_the_coordinator_choose_the_id_only_when_it_joins() -> None:
    shard = Shard()
    assert shard.join("", version=0).member_id == "made-1"
    assert error_of(lambda: shard.join("", version=0, member_epoch=3)) is ErrorCode.INVALID_REQUEST
    assert error_of(lambda: shard.join("", version=0, member_epoch=-1)) is ErrorCode.INVALID_REQUEST
