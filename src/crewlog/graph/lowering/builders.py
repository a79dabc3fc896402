"""`@builder` registers a function as a builder that crews use by its name.

    class Options(Model):
        rounds: int = 3

    @builder("debate")
    def debate(options: Options, place: Place) -> StateGraph:
        # Two agents argue, a third decides.

The first line of the docstring is the builder's description. The function returns flow items, a
`Built` of them, or a LangGraph `StateGraph`, which `crewlog.graph.lowering.flow_translation` reads
as data. A package provides builders by entry points of the group `crewlog.builders`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_type_hints

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

import crewlog.definition.patterns  # noqa: F401  # pyright: ignore[reportUnusedImport] - registers its builders
from crewlog.definition.builders import Builder, Built, NoOptions, Place, register
from crewlog.definition.model import NAME_PATTERN, FlowItem
from crewlog.errors import UsageError
from crewlog.graph.lowering.flow_translation import translate
from crewlog.model import Model

BuilderResult = Built | Sequence[FlowItem] | StateGraph[Any, Any, Any, Any]
"""What a builder's function may return."""


def builder(
    name: str, kind: Literal["flow", "agent"] = "flow", *, steps: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Builder]:
    """Registers a function `(options, place)` as a builder.

    Args:
        name: Its name in `use`.
        kind: `flow`: it builds phases of a flow; `agent`: the steps inside an agent's phase.
        steps: For `agent`: the steps that the pattern's `off` may name.

    Raises:
        UsageError: the function cannot be a builder, or another module has a builder of that name.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise UsageError(
            f"{name!r} cannot be a builder's name",
            remedy="A name is a letter and then at most 63 letters, digits, '_' or '-'.",
        )
    if kind not in ("flow", "agent"):
        raise UsageError(f"a builder's kind is 'flow' or 'agent', not {kind!r}")

    def decorate(function: Callable[..., Any]) -> Builder:
        options_model = _options_model(function, name)

        @functools.wraps(function)
        def expand(options: Any, place: Place) -> Built | Sequence[FlowItem]:
            result: BuilderResult = function(options, place)
            if isinstance(result, StateGraph | CompiledStateGraph):
                return translate(result, place)
            return result

        doc = inspect.getdoc(function) or ""
        about = doc.partition("\n")[0].rstrip(".")
        return register(Builder(name, about or name, kind, options_model, expand, tuple(steps)))

    return decorate


def _options_model(function: Callable[..., Any], name: str) -> type[Model]:
    """The model of a builder's options: the annotation of its first parameter."""
    qualified_name = f"{function.__module__}.{function.__qualname__}"
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2 or inspect.iscoroutinefunction(function):
        raise UsageError(
            f"the builder {name!r} must be a function (options, place), not async",
            remedy="Write def f(options: MyOptions, place: Place).",
            place=qualified_name,
        )
    try:
        model: Any = get_type_hints(function).get(parameters[0], NoOptions)
    except (NameError, TypeError) as error:
        raise UsageError(
            f"the annotations of the builder {name!r} cannot be resolved: {error}",
            remedy="Import their names at the top of the module, not under TYPE_CHECKING.",
            place=qualified_name,
        ) from None
    if not (isinstance(model, type) and issubclass(model, Model)):
        raise UsageError(
            f"the options of the builder {name!r} are {model!r}, which is no crewlog.Model",
            remedy="class MyOptions(crewlog.Model): …",
            place=qualified_name,
        )
    return model
