"""Opens files and connects to hosts for tools, within the allowlist of their definition."""
