"""`bifrost.Admin`: look at a cluster and change it, from Python."""

from __future__ import annotations

from bifrost.client.config_admin import ConfigAdmin
from bifrost.client.group_admin import GroupAdmin
from bifrost.client.record_admin import RecordAdmin


class Admin(ConfigAdmin, GroupAdmin, RecordAdmin):
    """Look at a cluster and change it: topics, their records, settings, consumer groups, brokers.

    The cluster is found as everywhere in Bifrost: `bootstrap`, or `cluster` for one that the configuration file names,
    or else the environment and the file decide. `timeout_s` bounds each call. `config` takes any setting of librdkafka.
    Everything that is returned is a frozen dataclass; everything that fails is a `BifrostError` that says what to do.
    An admin may be shared by threads.

    >>> with Admin(bootstrap) as admin:
    ...     admin.create_topic("deliveries", partitions=2)
    ...     len(admin.topic("deliveries").partitions)
    True
    2
    """
