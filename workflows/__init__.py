"""Orchestration: the workflow classes, thin over the pure core. No I/O and no models of their own.

What stands here runs in Temporal's sandbox and is replayed: a change to the order or the kind of
what it schedules breaks runs that are under way. `tests/replay/` holds the histories that guard it.
"""
