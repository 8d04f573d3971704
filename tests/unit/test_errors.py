"""Failures of the environment cross the border of a process whole, and codes that nobody knows are failures."""

from __future__ import annotations

import pickle

import pytest

from bifrost.errors import DiskFullError, ErrorCode, StorageError
from bifrost.log.cleaning.task import OversizedBatchError
from bifrost.log.memory_disk import MemoryFile
from bifrost.log.scan import DamagedBatchError


@pytest.mark.parametrize(
    "error",
    [
        StorageError("/data/t-0", "input/output error"),
        DiskFullError("/data/t-0", "no space left on device"),
        DamagedBatchError(MemoryFile("/data/t-0/0.log"), 61, "checksum does not match"),
        OversizedBatchError(MemoryFile("/data/t-0/0.log"), 61, "too much"),
    ],
)
def test_a_storage_error_keeps_its_kind_its_path_and_its_words(error: StorageError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert (str(found), found.path, found.detail) == (str(error), error.path, error.detail)


def test_a_code_of_a_later_version_is_a_failure() -> None:
    """A node that is newer may answer it: nobody may stumble over the number."""
    assert ErrorCode(31_999) is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ValueError, match="not a valid"):
        ErrorCode("NONE")
