"""The examples in the docstrings of `read_arrow` and `write_arrow` run as they stand: first written, then read."""

from __future__ import annotations

import doctest

import pyarrow
import pytest

import bifrost
from bifrost.columnar import reading, writing
from bifrost.testing import Cluster


def test_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    printed: list[str] = []
    with Cluster() as cluster, bifrost.Admin(cluster.bootstrap) as admin:
        monkeypatch.setenv("BIFROST_BOOTSTRAP", cluster.bootstrap)
        admin.create_topic("readings", partitions=1)
        for function in (writing.write_arrow, reading.read_arrow):
            names = {"pyarrow": pyarrow, "read_arrow": bifrost.read_arrow, "write_arrow": bifrost.write_arrow}
            for example in finder.find(function, function.__name__, globs=names):
                runner.run(example, out=printed.append)
    assert runner.tries == 5
    assert not printed, "".join(printed)
