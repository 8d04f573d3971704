"""A real broker inside your tests."""
