"""The command line: `crewlog …`. `docs/cli.md` lists the commands, their JSON and exit codes."""
