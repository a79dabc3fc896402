"""Wiring: settings, the workflow runner, the worker. The only place that knows everything."""
