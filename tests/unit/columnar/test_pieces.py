"""What is written comes in tables of a good size, whatever size it was handed over in."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bifrost.client.errors import InvalidRequestError
from bifrost.columnar import pieces as module
from bifrost.columnar.pieces import pieces


def numbers(*counts: int) -> list[pa.Table]:
    tables, first = [], 0
    for count in counts:
        tables.append(pa.table({"value": [b"%08d" % number for number in range(first, first + count)]}))
        first += count
    return tables


@pytest.mark.parametrize("counts", [(1000,), (1,) * 1000, (0, 999, 0, 1), (400, 1, 599)])
def test_pieces_are_of_bounded_size_and_hold_every_row_in_order(
    monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...]
) -> None:
    monkeypatch.setattr(module, "PIECE_ROWS", 300)
    monkeypatch.setattr(module, "PIECE_BYTES", 4000)
    found = list(pieces(numbers(*counts)))
    assert pa.concat_tables(found) == pa.concat_tables(numbers(1000))
    assert all(piece.num_rows <= 300 and piece.nbytes <= 4000 for piece in found)
    assert len(found) <= 6


def test_a_row_larger_than_a_piece_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 10)
    found = list(pieces(pa.table({"value": [bytes(100), bytes(100)]})))
    assert [piece.num_rows for piece in found] == [1, 1]


def test_a_table_without_rows_is_looked_at_all_the_same() -> None:
    (found,) = pieces(pa.table({"value": pa.array([], pa.binary())}))
    assert found.schema.names == ["value"]
    assert list(pieces([])) == []


@pytest.mark.parametrize("data", [{"value": [1]}, "value", [1, 2], 7])
def test_what_holds_no_columns_is_refused(data: object) -> None:
    with pytest.raises(InvalidRequestError, match="holds no Arrow columns"):
        list(pieces(data))
