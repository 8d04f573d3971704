"""What every test shares: pytest can run pytest, Ctrl-C reaches the programs that tests start, property tests draw the
same examples in every run, on any machine, and Apache Kafka gets a second chance.

`HYPOTHESIS_PROFILE=explore` draws new ones, to look for bugs that nobody has met yet.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.turnstile import turnstile

pytest_plugins = ["pytester"]

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


_SECOND_CHANCE = pytest.mark.flaky(reruns=1)
"""A test that runs at Apache Kafka tests the test: that it asks for what Kafka does. Kafka is slow to settle on a busy
machine, in moments that are its own, and a test that fails there twice in a row is wrong. Bifrost gets one chance,
except for being slow (`tests/faults/conftest.py`)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "kafka" in parameters.values() and item.get_closest_marker("flaky") is None:
            item.add_marker(_SECOND_CHANCE)


def pytest_configure() -> None:
    """A shell that runs the tests in the background makes them ignore Ctrl-C; what they start would ignore it too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Around everything else, so that time before the turnstile is not taken from the test's."""
    with turnstile(alone=item.get_closest_marker("alone") is not None):
        return (yield)
