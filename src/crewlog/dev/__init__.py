"""Local services: the Temporal dev server and an embedded PostgreSQL, in the background.

| module | what for |
| --- | --- |
| `services` | `Services.ensure`, `stop_all`, `list_services`, `register_worker` |
| `ephemeral` | throwaway services for tests |
| `doctor` | `examine`: what is wrong and what to do |
| `supervisor` | `Supervisor`: starts the Temporal server again where it ends or no longer serves |
| `temporal_cli` | `find_cli`, `find_with_attempts`: the Temporal command line |
| `paths`, `progress` | `Home`; the `Progress` protocol |

Nothing is imported here: the Temporal SDK takes half a second, and `paths` does not need it.
"""
