"""Decisions: named forms of a reply, each a model with words about it and a reader of its own.

    @crewlog.decision("triage")
    class Triage(crewlog.Decision):
        \"\"\"How bad it is, and whose it is.\"\"\"

        severity: Literal["low", "high"]
        owner: AgentIn

An agent with `reply: triage` is told the form, and what it says is read as one; the fields are its
outputs. Packages bring their own by the entry point group `crewlog.decisions`; a worker must have
those that its crews use, as it must have the builders.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ConfigDict, ValidationInfo, WithJsonSchema

from crewlog.definition import registering
from crewlog.definition.findings import listed
from crewlog.definition.replies import DECISION_PATTERN, RESPONSE, VALUE, Reply
from crewlog.errors import UsageError
from crewlog.model import Json, Model

GROUP = "crewlog.decisions"
"""The entry point group: each entry names a decision's class, or a module that has some."""
_INSTALL = (
    "A decision of a package must be installed wherever it is checked and run, on every worker too."
)
AMONG = "x-among"
"""In a JSON Schema: the field names an agent; what it may be is filled in for each crew."""


def _is_among(name: str, info: ValidationInfo) -> str:
    given: Any = info.context
    among: Sequence[str] = given["among"] if given else ()
    if among and name not in among:
        raise ValueError(f"{name!r} is not one of {listed(among)}")
    return name


AgentIn = Annotated[str, AfterValidator(_is_among), WithJsonSchema({"type": "string", AMONG: True})]
"""A field that names an agent: one of the reply's `among`."""


class Decision(Model):
    """The base of decisions: a model whose docstrings the agent is told."""

    # What a model says besides does no harm, and most say more than they are asked for.
    model_config = ConfigDict(extra="ignore")

    @classmethod
    def lenient(cls, said: Json, among: Sequence[str]) -> Json:
        """What a reply may mean that is not exactly this.

        Args:
            said: The JSON that was found in the reply, or its text where there was none.
            among: The names that fields naming agents may have.

        Returns:
            Data that is read once more; none where it is not clear what was meant.
        """
        return None


@dataclass(frozen=True)
class DecisionKind:
    """A registered decision."""

    name: str
    about: str
    """What it decides, in a line or more: the agent is told it."""
    model: type[Decision]
    broken: str = ""
    """Why it cannot be used: its package could not be loaded."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Its fields: outputs of an agent that decides so."""
        return tuple(self.model.model_fields)


_D = TypeVar("_D", bound=type[Decision])
_registered: dict[str, DecisionKind] = {}
_broken: dict[tuple[str, str], DecisionKind] = {}
_loaded: set[tuple[str, str]] = set()


def decision(name: str, about: str = "") -> Callable[[_D], _D]:
    """Registers a decision's class under a name.

    Args:
        name: What `reply` calls it.
        about: What the agent is told that it decides; by default the class's docstring.

    Raises:
        UsageError: where the class cannot be a decision, or another module has one of that name.
    """
    if not re.fullmatch(DECISION_PATTERN, name):
        raise UsageError(
            f"{name!r} cannot be a decision's name",
            remedy="A name is a letter and then at most 63 letters, digits, '_' or '-'.",
        )

    def registered(model: _D) -> _D:
        if not (isinstance(model, type) and issubclass(model, Decision)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"the decision {name!r} is {model!r}, which is no crewlog.Decision",
                remedy="class MyDecision(crewlog.Decision): …",
            )
        kind = DecisionKind(name, about or inspect.getdoc(model) or name, model)
        registering.put(kind, _registered, _origin, "decision")
        return model

    return registered


def decisions() -> dict[str, DecisionKind]:
    """All decisions by name, those of installed packages included.

    An entry point that cannot be loaded is here under its own name, with `broken` set.
    """
    _load()
    return registering.all_of(_registered, _broken)


def find_decision(name: str) -> DecisionKind:
    """The decision of that name.

    Raises:
        LookupError: where there is none; the text says which there are.
    """
    if name not in _registered:
        _load()
    return registering.find(name, _registered, _broken, _INSTALL)


def reply_fields(reply: Reply) -> tuple[str, ...]:
    """The outputs that a reply sets of the agent, besides the text of it.

    None of a decision that is not there: `crewlog.definition.reply_checks` tells of that.
    """
    if reply.decision is not None:
        try:
            return find_decision(reply.decision).fields
        except LookupError:
            return ()
    schema = reply.schema_ or {}
    properties: Any = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        return (VALUE,)
    return tuple(str(key) for key in properties if re.fullmatch(DECISION_PATTERN, str(key)))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def reply_outputs(reply: Reply | None) -> tuple[str, ...]:
    """All outputs that a reply sets: its fields, and its text as `response`."""
    return () if reply is None else tuple(dict.fromkeys((*reply_fields(reply), RESPONSE)))


def _load() -> None:
    import_module("crewlog.definition.deciding")  # registers the built-in ones
    registering.load(GROUP, _loaded, _broken, _fault_of, _lost, "decision")


def _lost(name: str, say: str) -> DecisionKind:
    return DecisionKind(name, say, Decision, broken=say)


def _fault_of(found: Any) -> str:
    """What is wrong with what an entry point names; empty where nothing is."""
    name = found.__name__ if isinstance(found, ModuleType) else ""
    origins = [_origin(kind) for kind in _registered.values()]
    if name and any(origin == name or origin.startswith(f"{name}.") for origin in origins):
        return ""
    if any(kind.model is found for kind in _registered.values()):
        return ""
    return "which makes no decision: put @crewlog.decision over a class of it"


def _origin(kind: DecisionKind) -> str:
    return kind.model.__module__
