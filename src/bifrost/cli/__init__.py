"""The bifrost command, one file per noun."""
