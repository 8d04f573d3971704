"""Two logs of one partition on one node: which of them counts."""

from __future__ import annotations

from uuid import UUID

import pytest

from bifrost.log.twins import Twin, second_counts

OURS, OTHER, THIRD = UUID(int=1), UUID(int=2), UUID(int=3)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Twin(OURS, 0, 0), Twin(OTHER, 9, 9), False),
        (Twin(OTHER, 9, 9), Twin(OURS, 0, 0), True),
        (Twin(OTHER, 0, 0), Twin(None, 0, 0), True),
        (Twin(None, 0, 0), Twin(OTHER, 0, 0), False),
        (Twin(None, 0, 0), Twin(OURS, 0, 0), True),
        (Twin(OURS, 3, 50), Twin(OURS, 4, 10), True),
        (Twin(OURS, 4, 10), Twin(OURS, 3, 50), False),
        (Twin(OURS, 4, 10), Twin(OURS, 4, 11), True),
        (Twin(OURS, 4, 11), Twin(OURS, 4, 10), False),
        (Twin(OURS, 4, 10), Twin(OURS, 4, 10), False),
        (Twin(OTHER, 0, 5), Twin(OTHER, 0, 6), True),
        (Twin(None, 0, 0), Twin(None, 0, 0), None),
    ],
)
def test_which_of_two_counts(first: Twin, second: Twin, expected: bool | None) -> None:
    assert second_counts(first, second, OURS) is expected
