"""Real processes, real faults: killed, paused and cut-off nodes, full and failing disks, flipped bits.

Clients write down what they were told, and pure checkers judge it, those of the simulator among them.
"""
