"""Run merge: the protocol of two runs, the state of the surviving run, and renames."""
