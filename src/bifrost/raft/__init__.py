"""The metadata quorum: which metadata records are committed."""
