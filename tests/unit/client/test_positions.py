from __future__ import annotations

import pytest
from rich.console import Console

from bifrost.client.errors import UnknownPartitionError
from bifrost.client.positions import OffsetTable, PartitionOffsets

ROWS = [PartitionOffsets("b", 0, 5, 4, 9), PartitionOffsets("a", 10, None, None, 3), PartitionOffsets("a", 2, 3, 3, 3)]


def test_rows_are_in_order_and_found_by_number_or_partition() -> None:
    table = OffsetTable(ROWS)
    assert [row[:2] for row in table] == [("a", 2), ("a", 10), ("b", 0)]
    assert table[0] is table["a", 2]
    assert list(table[1:]) == [table["a", 10], table["b", 0]]
    assert len(table) == 3
    with pytest.raises(UnknownPartitionError, match="c-1 is not in this table"):
        table["c", 1]


@pytest.mark.parametrize(
    ("position", "committed", "end", "lag"),
    [(5, 4, 9, 4), (None, 4, 9, 5), (None, None, 9, None), (5, 4, None, None), (9, 9, 8, 0)],
)
def test_lag_counts_from_the_position_or_what_was_committed(
    position: int | None, committed: int | None, end: int | None, lag: int | None
) -> None:
    assert PartitionOffsets("t", 0, position, committed, end).lag == lag


def test_the_lag_of_all_counts_what_is_known() -> None:
    assert OffsetTable(ROWS).lag == 4


def test_rich_prints_the_same_table() -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(OffsetTable(ROWS))
    lines = [line.replace("│", " ").split() for line in capture.get().splitlines() if "│" in line]
    assert lines == [["a", "2", "3", "3", "3", "0"], ["a", "10", "-", "-", "3", "-"], ["b", "0", "5", "4", "9", "4"]]
    assert [word for word in str(OffsetTable(ROWS)).split() if word in {"-", "10"}] == ["10", "-", "-", "-"]
