"""The report of a run: what it planned, decided, produced and used, on one page."""
