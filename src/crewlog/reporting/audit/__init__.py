"""The audit of a run: permissions checked, interrupts answered, commands applied and refused."""
