"""How nodes of a cluster reach each other: doors, and connections on which one asks another."""
