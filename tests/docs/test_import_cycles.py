"""No modules of the package import each other in a cycle, imports for type checkers included."""

from __future__ import annotations

import grimp


def in_cycles(imports: dict[str, set[str]]) -> set[str]:
    """The modules that remain when those without an import among the rest are removed."""
    rest = set(imports)
    while done := {module for module in rest if not imports[module] & rest}:
        rest -= done
    while done := {module for module in rest if not any(module in imports[each] for each in rest)}:
        rest -= done
    return rest


def test_no_modules_import_each_other_in_a_cycle() -> None:
    graph = grimp.build_graph("crewlog", cache_dir=None)
    imports = {
        module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules
    }
    assert in_cycles(imports) == set()


def test_a_cycle_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}
    assert in_cycles(imports) == {"b", "c"}
