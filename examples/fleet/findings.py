"""What the pipeline found, beside what plain Python expects of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import bifrost
from examples.fleet.delivery import ALERTS
from examples.fleet.expected import Expected, Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Findings:
    """Tables and topic, as they are after the last run."""

    positions: int
    windows: dict[tuple[str, int], Window]
    alerts: list[tuple[str, str, int]]
    places: dict[tuple[str, int], tuple[float, float]]
    """Where each truck was at the end of each window."""

    def differences(self, expected: Expected) -> list[str]:
        """Empty if the two agree in everything."""
        found = []
        if self.positions != expected.positions:
            found.append(f"{self.positions} positions in the table, {expected.positions} expected")
        wrong = {
            key for key in self.windows.keys() | expected.windows if self.windows.get(key) != expected.windows.get(key)
        }
        found += [f"{key}: {self.windows.get(key)}, expected {expected.windows.get(key)}" for key in sorted(wrong)[:3]]
        if sorted(self.alerts) != sorted(expected.alerts):
            found.append(f"{len(self.alerts)} alerts in the topic, {len(expected.alerts)} expected")
        return found


def look(spark: SparkSession, bootstrap: str) -> Findings:
    """Two tables of the session's catalog, and the topic of alerts as any client reads it."""
    rows: list[Any] = spark.sql("SELECT *, unix_millis(start) AS start_ms FROM truck_windows").collect()
    with bifrost.Consumer(ALERTS, bootstrap=bootstrap, value="json", from_beginning=True, until_end=True) as consumer:
        alerts = [(said["truck"], said["kind"], said["start_ms"]) for said in (message.value for message in consumer)]
    return Findings(
        positions=spark.table("positions").count(),
        windows={
            (row.truck, row.start_ms): Window(row.reports, row.mean_kmh, row.top_kmh, row.stopped) for row in rows
        },
        alerts=alerts,
        places={(row.truck, row.start_ms): (row.lat, row.lon) for row in rows},
    )
