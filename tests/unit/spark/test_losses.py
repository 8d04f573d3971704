"""What is said of records that are gone, and what is left to be read."""

from __future__ import annotations

import logging

import pytest

from bifrost.spark.failures import DataLossError
from bifrost.spark.losses import bear, still_there, up_to
from bifrost.spark.ranges import OffsetRange
from bifrost.types import TopicPartition

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))


def test_what_expired_is_cut_off_and_told() -> None:
    ranges = [OffsetRange(A0, 10, 40), OffsetRange(A1, 10, 40), OffsetRange(A2, 10, 40)]
    left, losses = still_there(ranges, {A0: 10, A1: 25, A2: 90})
    assert left == [OffsetRange(A0, 10, 40), OffsetRange(A1, 25, 40)]
    assert losses == [
        "a-1 no longer has the offsets 10 to 25: it begins at 25",
        "a-2 no longer has the offsets 10 to 40: it begins at 90",
    ]


def test_a_partition_that_nobody_asked_about_is_left_alone() -> None:
    assert still_there([OffsetRange(A0, 1, 2)], {}) == ([OffsetRange(A0, 1, 2)], [])


def test_an_end_behind_the_end_is_told() -> None:
    assert up_to({A0: 5, A1: 50}, {A0: 10, A1: 10}) == (
        {A0: 5, A1: 10},
        ["endingOffsets: a-1 is to be read up to offset 50 but ends at 10"],
    )


def test_a_loss_ends_the_query_or_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    bear([], fail=True)
    with pytest.raises(DataLossError, match=r"some are gone.*failOnDataLoss=false"):
        bear(["some are gone"], fail=True)
    with caplog.at_level(logging.WARNING):
        bear(["some are gone"], fail=False)
    assert "some are gone; failOnDataLoss is false" in caplog.text
