"""Group names that a careful broker might stumble over. Kafka takes any text that is not empty."""

from __future__ import annotations

ODD_GROUPS = {
    "empty": "",
    "of_a_space": " ",
    "with_spaces": " group with spaces ",
    "in_unicode": "группа-グループ-\U0001f680",
    "with_control_characters": "bell\x07 tab\t line\n nul\x00",
    "with_slashes": "../../etc/passwd",
    "of_249_characters": "g" * 249,
    "of_1000_characters": "g" * 1000,
    "of_30000_bytes": "ü" * 15_000,
}
