"""Leaders and followers of a partition: when a write is safe, and who may read it."""
