"""What is compared: each system in a process of its own, so that none shares an interpreter."""
