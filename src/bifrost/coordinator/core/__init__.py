"""What the group coordinator decides. Pure: it reaches the log, time and topics through `environment` alone."""
