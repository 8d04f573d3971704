"""Consumer groups of the newer protocol (KIP-848): the coordinator assigns, members reconcile one by one.

`groups` is the door: it takes requests, writes down what was decided and answers. `group` and `member` are what is
known, and change by replaying the log alone. `heartbeat` decides, with `reconciliation` for what a member may have
next, `target` for what it shall have in the end, and `regexes` for which topics a regular expression means.
"""
