"""Two runs become one: their definitions, and the run that survives."""
