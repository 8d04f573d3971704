"""The decisions of the metadata quorum, free of IO."""
