"""The examples in the docstrings of the producer run as they stand, each docstring against a broker of its own.

Those of the consumer and the admin need topics to talk about: `tests/compat` prepares them, on both brokers.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import bifrost.client
from bifrost.testing import Cluster

PREPARED = {
    "admin",
    "cluster_admin",
    "config_admin",
    "group_admin",
    "record_admin",
    "topic_admin",
    "consumer",
    "async_consumer",
}


def examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in pkgutil.iter_modules(bifrost.client.__path__, "bifrost.client."):
        if module.name.removeprefix("bifrost.client.") in PREPARED:
            continue
        for found in finder.find(importlib.import_module(module.name)):
            if found.examples:
                yield found


@pytest.mark.parametrize("example", list(examples()), ids=lambda example: example.name)
def test_example(example: doctest.DocTest, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster() as cluster:
        monkeypatch.setenv("BIFROST_BOOTSTRAP", cluster.bootstrap)
        printed: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(example, out=printed.append)
    assert runner.tries > 0
    assert not printed, "".join(printed)


def test_the_main_classes_have_examples() -> None:
    assert {"Producer", "Producer.send", "AsyncProducer"} <= {
        example.name.removeprefix("bifrost.client.").partition(".")[2] for example in examples()
    }
