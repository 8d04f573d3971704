"""Every example of the consumer's documentation is run: docstrings at both brokers, docs/python/consumer.md at Kafka.

`tests/docs` runs the page at Bifrost.
"""

from __future__ import annotations

import asyncio
import doctest
import re
from pathlib import Path

import pytest

import bifrost
from bifrost.client import async_consumer, consumer
from tests.compat import wire
from tests.compat.conftest import FOREIGN, StartBroker
from tests.compat.questions.party import await_coordinators
from tests.compat.readers import write

PAGE = Path(__file__).parents[2] / "docs" / "python" / "consumer.md"
READINGS = [(b"garden", b'{"celsius": 21.5}'), (b"cellar", b'{"celsius": 12.0}')]

pytestmark = pytest.mark.skipif(FOREIGN is not None, reason="needs a topic of a name that others may have")


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.oracle), "bifrost"])
def bootstrap(request: pytest.FixtureRequest, start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> str:
    server = start_broker(request.param)
    await_coordinators(server.bootstrap)
    monkeypatch.setenv("BIFROST_BOOTSTRAP", server.bootstrap)
    return server.bootstrap


def test_the_examples_of_the_docstrings_do_what_they_say(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    wire.create_topic(bootstrap, "readings", 1)
    for key, value in READINGS:
        write(bootstrap, "readings", [value], key=key)
    for module in (consumer, async_consumer):
        found = doctest.DocTestFinder().find(module, globs={**vars(bifrost), **vars(module), "asyncio": asyncio})
        runner = doctest.DocTestRunner()
        for each in found:
            runner.run(each)
        assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out
        assert runner.tries > 0


@pytest.mark.parametrize("bootstrap", [pytest.param("kafka", marks=pytest.mark.oracle)], indirect=True)
def test_the_examples_of_the_page_run(bootstrap: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 9
    namespace: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), namespace)
