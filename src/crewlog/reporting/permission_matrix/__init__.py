"""The permission matrix: whether agents may call tools now, and why."""
