"""Commands, from their handlers to their outcomes; `processor` has the way of a command."""
