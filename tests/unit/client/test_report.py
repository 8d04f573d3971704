"""Counting, and what the counts say."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from bifrost.client.ledger import Ledger
from bifrost.client.report import PartitionReport, Report


@pytest.fixture
def ledger() -> Ledger:
    outbox: Any = None
    made = Ledger("t", 3, outbox)
    made.sent = 7
    for partition, offset in ((0, 10), (0, 11), (2, 5), (0, 12)):
        made.acknowledge(partition, offset)
    made.fail(2)
    made.fail(-1)
    return made


def test_a_ledger_knows_each_partition_and_what_has_none(ledger: Ledger) -> None:
    assert ledger.report({0: 13, 2: 7}) == [
        PartitionReport("t", 0, 3, 3, 0, 3, 10, 12),
        PartitionReport("t", 2, 2, 1, 1, 2, 5, 5),
        PartitionReport("t", None, 2, 0, 1, None, None, None),
    ]


def test_a_ledger_without_offsets_counts_from_where_partitions_ended(ledger: Ledger) -> None:
    ledger.rows.clear()
    ledger.baseline = {1: 40}
    ledger.acknowledge(1, None)
    (line, _) = ledger.report({1: 42})
    assert (line.stored, line.first_offset) == (2, None)


def test_an_interrupted_count_is_put_right_once_all_is_settled(ledger: Ledger) -> None:
    ledger.reconcile()
    assert ledger.sent == 7
    ledger.uncertain = True
    ledger.reconcile()
    assert ledger.sent == 6


@pytest.mark.parametrize(
    ("sent", "acknowledged", "failed", "stored", "complete"),
    [
        (3, 3, 0, 3, True),
        (3, 3, 0, None, True),
        (3, 3, 0, 9, True),
        (3, 3, 0, 2, False),
        (3, 2, 1, 3, False),
        (3, 2, 0, 3, False),
    ],
)
def test_complete(sent: int, acknowledged: int, failed: int, stored: int | None, complete: bool) -> None:
    report = Report((PartitionReport("t", 0, sent, acknowledged, failed, stored, 0, 2),))
    assert report.complete is complete
    assert report.pending == sent - acknowledged - failed


def test_how_it_looks(ledger: Ledger) -> None:
    report = Report(tuple(ledger.report({0: 13, 2: 7})))
    assert str(report).splitlines() == [
        "topic  partition  sent  acknowledged  failed  stored  offsets",
        "t              0     3             3       0       3    10-12",
        "t              2     2             1       1       2        5",
        "t              ?     2             0       1       ?",
        "7 sent, 4 acknowledged, 5 stored, 2 failed, 1 pending",
    ]
    page = io.StringIO()
    Console(file=page, width=100).print(report)
    assert "10-12" in page.getvalue()
    assert report.summary() in page.getvalue()


def test_nothing_sent() -> None:
    assert Report(()).complete
    assert Report(()).summary() == "0 sent, 0 acknowledged, 0 stored"
