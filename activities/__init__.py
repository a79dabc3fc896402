"""All I/O of a run: its models, its tools and its store, as Temporal activities."""
