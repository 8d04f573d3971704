"""What kafka-python and aiokafka call alike: the options of a consumer in a group of the classic protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.compat.members.worker import Member


def python_options(member: Member, assignors: Mapping[str, type]) -> dict[str, Any]:
    spec = member.spec
    assert spec.protocol == "classic"
    options: dict[str, Any] = {
        "bootstrap_servers": spec.bootstrap,
        "group_id": spec.group,
        "group_instance_id": spec.instance,
        "client_id": member.name,
        "auto_offset_reset": spec.reset,
        "enable_auto_commit": spec.commit == "auto",
        "auto_commit_interval_ms": 200,
        "session_timeout_ms": spec.session_ms,
        "heartbeat_interval_ms": spec.heartbeat_ms,
        "max_poll_interval_ms": spec.max_poll_ms,
        "fetch_max_wait_ms": 50,
        "metadata_max_age_ms": 300 if spec.pattern is not None else 30_000,
        "retry_backoff_ms": 20,
    }
    if spec.assignor is not None:
        options["partition_assignment_strategy"] = [assignors[spec.assignor]]
    return options
