"""The decisions of the controller, free of IO."""
