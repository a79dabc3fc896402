"""Files and hosts for tools: opened and reached only where their definition lets them."""
