"""A Temporal Service: namespaces, deployments and errors, its CLI, and the log of the SDK."""
