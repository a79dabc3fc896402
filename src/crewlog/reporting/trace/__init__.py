"""The trace of a run: what it did, step by step and call by call."""
