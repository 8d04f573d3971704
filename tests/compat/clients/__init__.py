"""The clients of other people, each behind the one interface of `base`."""
