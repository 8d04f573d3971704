"""A fleet of trucks reports where it is."""
