"""A live run gets another definition: the report, the change and the swap of the graph."""
