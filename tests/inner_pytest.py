"""Runs pytest inside a test, with the plugin as an installed distribution would bring it."""

from __future__ import annotations

import os
import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "src"
INSTALLED = any(point.value == "bifrost.testing.plugin" for point in entry_points(group="pytest11"))
WORKER_SAID = re.compile(r"^said (\S+)$", re.MULTILINE)


class InnerPytest:
    """A run of pytest in a process of its own, in an empty directory; warnings are errors there, too."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pytester = pytester
        paths = [str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
        monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(self, test: str, *options: str, ini: str = "") -> pytest.RunResult:
        self._pytester.makepyfile(test_inner=test)
        self._pytester.makeini(f"[pytest]\n{ini}\n")
        plugin = [] if INSTALLED else ["-p", "bifrost.testing.plugin"]
        fixed = ["-p", "no:randomly", "-p", "no:cacheprovider", "-W", "error", "-rA", "--strict-markers"]
        return self._pytester.runpytest_subprocess(*fixed, *options, *plugin, timeout=100)

    def passes(self, test: str, *options: str, ini: str = "", **outcomes: int) -> list[str]:
        """Everything goes well and nothing is left on stderr; what the tests `print("said", ...)`, in order."""
        result = self.run(test, *options, ini=ini)
        result.assert_outcomes(**outcomes)
        assert result.stderr.str().strip() == ""
        return WORKER_SAID.findall(result.stdout.str())


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> InnerPytest:
    return InnerPytest(pytester, monkeypatch)
