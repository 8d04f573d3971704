"""The decisions of replication, free of IO."""
