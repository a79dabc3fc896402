"""Dry runs: the route of a graph without a call of a model or a tool."""
