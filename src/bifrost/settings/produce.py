"""How closely a node looks at what producers send. Kafka has no such settings: it looks into every batch."""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.settings.fields import key
from bifrost.settings.keys import Update


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceSettings:
    """Part of `Settings`."""

    # fmt: off
    produce_validation: str = key(
        "produce.validation", "header", choices=("header", "full"), own=True, update=Update.CLUSTER_WIDE,
        doc="`header` takes a batch by its header and its checksum. `full` looks at every record in it, as Kafka does:"
        " their number, offsets, timestamps, and what they inflate to. It costs a microsecond or two for each, in other"
        " processes. What the topic's own configs ask for, such as keys if it is compacted, is looked for in any case.",
    )
    produce_inflated_max_bytes: int = key(
        "produce.inflated.max.bytes", 64 << 20, at_least=1 << 10, own=True, update=Update.CLUSTER_WIDE,
        doc="What a compressed batch may inflate to where it has to be looked into, or max.message.bytes if that is"
        " more; a batch that holds more is refused as too large. Two are looked into at a time.",
    )
    # fmt: on
