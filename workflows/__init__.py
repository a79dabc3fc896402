"""Orchestration: the workflow classes, thin over the pure core. No I/O and no models of their own.

This code is replayed: a change of the order or the kind of its
commands breaks open runs. `tests/replay/` has the histories that guard it.
"""
