"""A cluster that tests use and did not start: Apache Kafka, or a Bifrost that another process runs."""

from __future__ import annotations

from typing import NoReturn


class ForeignCluster:
    """Known by its address only; what a cluster of one's own can do besides is refused by name."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{name}: the cluster at {self.bootstrap} was started elsewhere; all a test has is its address"
        )

    def __repr__(self) -> str:
        return f"ForeignCluster(bootstrap={self.bootstrap!r})"
