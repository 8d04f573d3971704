"""Several nodes on one machine: decisions only."""
