"""Crewlog."""
