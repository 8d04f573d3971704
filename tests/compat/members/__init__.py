"""Members of consumer groups, each a real client in a process that can be killed.

A host process holds any number of members of one client; host and test speak JSON, one object a line. Commands name
the member they are for: `join`, `commit`, `stall`, `leave`. Events tell what happened to it and when, by the wall clock
that all processes of the machine share: `assigned`, `revoked`, `lost`, `records`, `committing`, `committed`,
`commit_failed`, `left`, `failed`. A member says that partitions are revoked before its client gives them up, and that
they are assigned after it has got them: by these times two owners of a partition never overlap.
"""
