"""Any Temporal Service: its namespaces, deployments and errors, its CLI, and the log of its SDK."""
