"""Several nodes on one machine: who they are, where they listen, who watches over them. Starts no node by itself."""
