"""The engine of a run: plan, routing, turns, interrupts and changes, without a server."""
