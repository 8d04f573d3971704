"""What `produce`, `consume`, `perf` and the console commands have in common.

Pure: `lines` (input to records), `shapes`, `formats` and `template` (records to output), `times`, `histogram`, `pace`,
`properties`. Talk to a cluster, without an object of ours for each message that waits: `sender`, `reader`.
"""
