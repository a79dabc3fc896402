"""`@builder`: a function as a builder that crews can use by its name.

    class Options(Model):
        rounds: int = 3

    @builder("debate")
    def debate(options: Options, place: Place) -> StateGraph:
        # Two agents argue, a third decides.

The docstring's first line says what it is about. It may return flow items, a `Built` of them, or
a LangGraph `StateGraph`, which `crewlog.graph.lowering.flow_translation` reads as data. A package
makes it installable by an entry point of the group `crewlog.builders`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_type_hints

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

import crewlog.definition.patterns  # noqa: F401  # pyright: ignore[reportUnusedImport] - their names are taken
from crewlog.definition.builders import Builder, Built, NoOptions, Place, register
from crewlog.definition.model import NAME_PATTERN, FlowItem
from crewlog.errors import UsageError
from crewlog.graph.lowering.flow_translation import translate
from crewlog.model import Model

Made = Built | Sequence[FlowItem] | StateGraph[Any, Any, Any, Any]
"""What a builder's function may return."""


def builder(
    name: str, kind: Literal["flow", "agent"] = "flow", *, steps: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Builder]:
    """Makes a builder of a function `(options, place)`, and registers it.

    Args:
        name: What crews use it by.
        kind: Whether it makes a part of a flow, or the steps inside an agent's phase.
        steps: For an agent: the steps that its pattern's `off` may name.

    Raises:
        UsageError: where the function cannot be a builder, or another module has one of that name.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise UsageError(
            f"{name!r} cannot be a builder's name",
            remedy="A name is a letter and then at most 63 letters, digits, '_' or '-'.",
        )
    if kind not in ("flow", "agent"):
        raise UsageError(f"a builder's kind is 'flow' or 'agent', not {kind!r}")

    def registered(function: Callable[..., Any]) -> Builder:
        options = _options(function, name)

        @functools.wraps(function)
        def expand(given: Any, place: Place) -> Built | Sequence[FlowItem]:
            made: Made = function(given, place)
            if isinstance(made, StateGraph | CompiledStateGraph):
                return translate(made, place)
            return made

        doc = inspect.getdoc(function) or ""
        about = doc.partition("\n")[0].rstrip(".")
        return register(Builder(name, about or name, kind, options, expand, tuple(steps)))

    return registered


def _options(function: Callable[..., Any], name: str) -> type[Model]:
    """The model of a builder's options, by the annotation of its first parameter."""
    where = f"{function.__module__}.{function.__qualname__}"
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2 or inspect.iscoroutinefunction(function):
        raise UsageError(
            f"the builder {name!r} must be a function (options, place), not async",
            remedy="Write def f(options: MyOptions, place: Place).",
            place=where,
        )
    try:
        found: Any = get_type_hints(function).get(parameters[0], NoOptions)
    except (NameError, TypeError) as error:
        raise UsageError(
            f"the annotations of the builder {name!r} cannot be read: {error}",
            remedy="Import what they name at the top of the module, not under TYPE_CHECKING.",
            place=where,
        ) from None
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise UsageError(
            f"the options of the builder {name!r} are {found!r}, which is no crewlog.Model",
            remedy="class MyOptions(crewlog.Model): …",
            place=where,
        )
    return found
