"""Diffs of two states, two plans, or two contents of an artifact."""
