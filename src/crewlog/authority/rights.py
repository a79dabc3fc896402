"""The right that each command needs, by its name and by what it touches.

Three tables, which `docs/authority/principals.md` shows:

- `COMMANDS`: the right that a command needs by its name
- `TOUCHES`: the further right that it needs by what it touches in the run
- `DEFINITION`: the difference at each path of the definition that the right `change` permits. Any
  other difference, and any path without a rule, needs the highest right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from crewlog.authority.signatures import SCHEDULE, START
from crewlog.canonical_json import canonical
from crewlog.definition.policy import Right
from crewlog.definition.secrets import is_reference
from crewlog.json_diff import Path
from crewlog.model import Json, Model

if TYPE_CHECKING:  # they are slow to import, and clients need only the rights of commands
    from crewlog.authority.compared_crews import ComparedCrews
    from crewlog.definition.diff import Change

HIGHEST: Right = "grant"
"""The right that whatever has no rule needs."""

COMMANDS: Mapping[str, Right] = {
    START: "operate",
    SCHEDULE: "operate",
    "ask": "operate",
    "pause": "operate",
    "resume": "operate",
    "stop": "operate",
    "interrupt": "operate",
    "message": "operate",
    "tag": "operate",
    "edit_state": "operate",
    "redirect": "operate",
    "rollback": "operate",
    "answer": "answer",
    "change": "change",
    "set_permission": "grant",
}
"""The right that each command needs by its name."""

Touched = Literal[
    "permission condition", "flow", "requirement", "place", "interrupt", "live permission"
]
"""What a command touches in a run:

`permission condition`: a value that the condition of a permission reads; `flow`: a value that a
flow that asks people reads, or that an answer sets; `requirement`: a value that an open interrupt
about a requirement reads; `place`: the place of the run in a flow that asks people; `interrupt`: an
open interrupt; `live permission`: a permission of the live run, which becomes wider."""
TOUCHES: Mapping[Touched, Right] = {
    "permission condition": "grant",
    "flow": "answer",
    "requirement": "answer",
    "place": "answer",
    "interrupt": "answer",
    "live permission": "grant",
}
"""The right that a command needs for what it touches."""


class Touch(Model):
    """A thing that a command touches in a run."""

    kind: Touched
    text: str
    """What it is, for the error."""


@dataclass(frozen=True)
class Rule:
    """The differences at a path that the right `change` permits."""

    text: str
    """A phrase for the documentation."""
    permits: Callable[[Change, ComparedCrews], bool]
    """Whether it permits a difference."""


def _of_values(text: str, permits: Callable[[Json, Json], bool]) -> Rule:
    """A rule that compares the two values alone."""
    return Rule(text, lambda leaf, _: permits(leaf.old, leaf.new))


def _in_order(*values: str) -> Rule:
    """A rule that permits a later one of some values."""

    def permits(old: Json, new: Json) -> bool:
        return old in values and new in values and values.index(old) <= values.index(new)

    return _of_values(f"`{values[0]}` to `{values[-1]}`", permits)


def _are_fewer(old: Json, new: Json) -> bool:
    return {*map(canonical, new or ())} <= {*map(canonical, old or ())}


def _has_secret(value: Json) -> bool:
    """Whether a value contains the name of a secret, which a worker would read."""
    match value:
        case str():
            return is_reference(value)
        case list():
            items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return any(map(_has_secret, items))
        case dict():
            entries: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
            return any(map(_has_secret, entries.values()))
        case _:
            return False


def _narrows(leaf: Change, _: ComparedCrews) -> bool:
    rule = leaf.new
    return leaf.kind == "added" and (rule["do"] in ("never", "ask") or rule["quota"] is not None)


def _is_unread(leaf: Change, crews: ComparedCrews) -> bool:
    names = crews.deciding_names
    key = ".".join(leaf.path[1:])
    return key not in names.flags and key not in {
        f"{agent}.{name}" for agent, name in names.outputs
    }


def _is_free_flow(leaf: Change, crews: ComparedCrews) -> bool:
    if leaf.path[2:] in (("task",), ("wait",), ("wait_until",), ("at_once",)):
        return True
    return not crews.is_flow_guarded and not crews.has_milder_errors()


def _enables_nothing(leaf: Change, crews: ComparedCrews) -> bool:
    return leaf.new is False and crews.sets_the_same(leaf.path[1])


_SETTINGS = (
    *("temperature", "top_p", "top_k", "seed", "n", "stop", "stop_sequences", "streaming"),
    *("max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty"),
    *("logprobs", "top_logprobs", "reasoning_effort", "verbosity"),
)
"""Settings of a model that only affect its answers. Any other one may decide where prompts and
secrets are sent."""

ANY = _of_values("any", lambda old, new: True)
LOWER = _of_values("lower", lambda old, new: new is not None and (old is None or new <= old))
HIGHER = _of_values("higher", lambda old, new: old is None or (new is not None and new >= old))
FEWER = _of_values("fewer entries", _are_fewer)
ONCE = _of_values("set, if it was not set", lambda old, new: old is None)
GONE = _of_values("removed", lambda old, new: new is None)
NARROWING = Rule("a new rule that forbids, asks or counts", _narrows)
UNREAD = Rule("any, if no deciding condition reads it", _is_unread)
SETS = Rule(
    "any, if no deciding condition reads it", lambda leaf, crews: crews.sets_the_same(leaf.path[1])
)
CALLS = Rule(
    "no new call, and none without the approval that it needed",
    lambda leaf, crews: not crews.adds_calls(leaf.path[1]),
)
MODELS = Rule("models that the crew uses", lambda leaf, crews: not crews.adds_models)
ERRORS = Rule(
    "no milder for the agent, its steps included",
    lambda leaf, crews: not crews.has_milder_errors(leaf.path[1]),
)
SETTINGS = Rule(
    "settings of the model's answers, without secrets",
    lambda leaf, _: leaf.path[3] in _SETTINGS and not _has_secret(leaf.new),
)
DISABLED = Rule("`false`, if no deciding condition reads what the agent sets", _enables_nothing)
FLOW = Rule(
    "tasks and waits; if the flow asks nobody and no rule has a condition, anything but a milder "
    "`on_error`",
    _is_free_flow,
)

DEFINITION: Mapping[str, Rule] = {
    "description": ANY,
    "model": MODELS,
    "window.**": MODELS,
    "checkpoints.**": ANY,
    "approval": _in_order("understood", "required"),
    "limits.events": ANY,
    "limits.*": LOWER,
    "rules.*": NARROWING,
    "permissions.*": CALLS,
    "approvals.*": CALLS,
    "flags.*": UNREAD,
    "merge.*": UNREAD,
    "flow.**": FLOW,
    "agents.*.prompt": ANY,
    "agents.*.description": ANY,
    "agents.*.heartbeat": ANY,
    "agents.*.pattern.**": ANY,
    "agents.*.model": MODELS,
    "agents.*.window.**": MODELS,
    "agents.*.model_settings.*": SETTINGS,
    "agents.*.tools": CALLS,
    "agents.*.reads": FEWER,
    "agents.*.writes": FEWER,
    "agents.*.inputs": FEWER,
    "agents.*.shares": FEWER,
    "agents.*.listen": FEWER,
    "agents.*.send": FEWER,
    "agents.*.wires": FEWER,
    "agents.*.outputs": SETS,
    "agents.*.writes_flags": SETS,
    "agents.*.max_calls": LOWER,
    "agents.*.timeout": LOWER,
    "agents.*.retry.attempts": LOWER,
    "agents.*.retry.*": ANY,
    "agents.*.on_error.**": ERRORS,
    "agents.*.ask_below": HIGHER,
    "agents.*.enabled": DISABLED,
    "agents.*.parent": ONCE,
    "tools.*": GONE,
    "tools.*.description": ANY,
    "tools.*.heartbeat": ANY,
    "tools.*.timeout": LOWER,
    "tools.*.policy.attempts": LOWER,
    "tools.*.policy.*": ANY,
    "tools.*.hosts": FEWER,
    "tools.*.retry": _in_order("safe", "keyed", "never"),
    "tools.*.on_error": _in_order("model", "fail"),
    "tools.*.risk": _in_order("low", "high"),
}
"""The rules by path: `*` stands for one key, `**` at the end for any number of keys. The first
pattern that fits decides. Builders and patterns are expanded; steps of the flow have names."""


def find_rule(path: Path) -> Rule | None:
    """The rule of a path of the definition; none: any difference there needs the highest right."""
    return next((rule for pattern, rule in DEFINITION.items() if fits(pattern, path)), None)


def is_permitted(leaf: Change, crews: ComparedCrews) -> bool:
    """Whether the right `change` permits a difference of two crews."""
    rule = find_rule(leaf.path)
    return rule is not None and rule.permits(leaf, crews)


def fits(pattern: str, path: Path) -> bool:
    """Whether a pattern of `DEFINITION` is one for a path."""
    keys = pattern.split(".")
    if keys[-1] == "**":
        keys, path = keys[:-1], path[: len(keys) - 1]
    return len(keys) == len(path) and all(
        key in ("*", name) for key, name in zip(keys, path, strict=True)
    )


def needed_right(name: str, content: Mapping[str, Json]) -> Right:
    """The right that a command needs by its name.

    Args:
        name: Its name as it was sent, or `START`.
        content: Its content: an `ask` without a text only waits for the result.
    """
    if name == "ask" and not content.get("text"):
        return "view"
    return COMMANDS.get(name, HIGHEST)
