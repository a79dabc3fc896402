"""Events: journal entries as clients follow them, and the filters that select them."""
