"""Wiring: settings, the sandbox, the worker. The only place that knows everything."""
