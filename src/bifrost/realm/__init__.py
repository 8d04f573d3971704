"""Several nodes on one machine: who they are, where they listen, and a supervisor to start and watch them."""
