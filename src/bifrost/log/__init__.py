"""One partition on disk, in Kafka's own layout, and the directories that hold many of them."""
