"""Classic consumer groups: members agree on a leader, and the leader tells who reads what. Kafka: ClassicGroup.

* `group`, `member`, `subscription`  what is known of a group; nothing here waits or writes
* `rebalances`                       the way from one generation to the next, and the clocks along it
* `join`, `sync`, `leave`            the requests that move a group
* `persistence`, `describe`          a group as the log and as administrators see it
* `groups`                           the face of all this to the rest of the coordinator
"""
