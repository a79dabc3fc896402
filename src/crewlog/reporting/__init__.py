"""Read models over the journal: trace, report, audit, diff, drawing, dry run, explanation."""
