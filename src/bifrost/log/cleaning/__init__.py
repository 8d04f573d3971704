"""Compaction: of all records with one key the last stays. Kafka: LogCleaner, Cleaner, LogCleanerManager."""
