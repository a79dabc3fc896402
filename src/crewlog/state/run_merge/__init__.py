"""How two runs become one: the protocol, the state of the surviving run, and renames."""
