"""The group coordinator: who is in which consumer group, who reads what, and how far everyone has come."""
