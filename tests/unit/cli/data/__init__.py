"""The pure modules behind `produce`, `consume` and `perf`."""
