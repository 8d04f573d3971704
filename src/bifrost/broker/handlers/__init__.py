"""One file per state that the APIs touch. Importing this package registers nothing; see broker.registry."""
