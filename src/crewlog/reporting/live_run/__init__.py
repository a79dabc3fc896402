"""Read models of a live run for queries, Temporal's web UI and search: functions of its engine."""
