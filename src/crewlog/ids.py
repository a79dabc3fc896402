"""A NewType for every id that crosses a boundary, and the formats of derived ids.

All ids are plain strings on the wire. Formats:

| id | example | made of |
| --- | --- | --- |
| `RunId` | `music-7f3a` | the Temporal workflow id |
| `StepId` | `backend#2` | node name, `#`, visit number from 1 |
| | `backend#2.7` | child step: the id of its parent step, `.`, item number from 1 |
| `CallKey` | `music-7f3a/backend#2/3` | run, step, call number from 1: an idempotency key |
| `ContentHash` | 27 characters | see `crewlog.canonical_json` |

No other module takes a step's id apart. Where the step's entry in the state is at hand, its fields
`node`, `parent` and `item` say the same.
"""

from functools import lru_cache
from typing import NewType

RunId = NewType("RunId", str)
"""A run: the Temporal workflow id, the same for all executions."""
CrewName = NewType("CrewName", str)
AgentName = NewType("AgentName", str)
ToolName = NewType("ToolName", str)
NodeName = NewType("NodeName", str)
ANY_NODE = NodeName("*")
"""In a breakpoint: the next step, at any node."""
FlagName = NewType("FlagName", str)
StepId = NewType("StepId", str)
CallKey = NewType("CallKey", str)
InterruptId = NewType("InterruptId", str)
CommandId = NewType("CommandId", str)
RESERVED = "crewlog:"
"""The prefix of ids of the run's own commands."""
GROUP_COMMAND = f"{RESERVED}group/"
"""The prefix of ids of changes by group tools; step and call follow."""
LogName = NewType("LogName", str)
"""`public`, `group:G`, `private:A`, `channel:C`, `readers:A+B`, or `private:STEP` of a child step;
or `artifact:NAME`, whose entries are operations instead of messages."""
ContentHash = NewType("ContentHash", str)


CACHED_STEP_IDS = 8192
"""Parsed step ids in the cache: every completion parses those of the whole frontier."""


def step_id(node: NodeName, visit: int) -> StepId:
    """The id of the step with the visit number `visit` (from 1) of `node`."""
    return StepId(f"{node}#{visit}")


@lru_cache(maxsize=CACHED_STEP_IDS)
def node_of(step: StepId) -> NodeName:
    """The node of a step."""
    return NodeName(step.rpartition("#")[0])


def child_step_id(parent: StepId, item: int) -> StepId:
    """The id of the child step for the item `item` (from 1)."""
    return StepId(f"{parent}.{item}")


@lru_cache(maxsize=CACHED_STEP_IDS)
def item_number(step: StepId) -> int:
    """The item number of a child step; 0 for other steps."""
    return int(step.rpartition("#")[2].partition(".")[2] or 0)


@lru_cache(maxsize=CACHED_STEP_IDS)
def parent_or_self(step: StepId) -> StepId:
    """The parent step of a child step; any other step itself."""
    return step_id(node_of(step), visit_number(step))


@lru_cache(maxsize=CACHED_STEP_IDS)
def visit_number(step: StepId) -> int:
    """The number of a step among those of its node; a child step has its parent's."""
    return int(step.rpartition("#")[2].partition(".")[0])


def is_step_id(name: str) -> bool:
    """Whether a name is a step's id, and neither an agent's, a node's nor a tag's name."""
    return "#" in name


def idempotency_key(run: RunId, step: StepId, call: int) -> CallKey:
    """The idempotency key of the call `call` (from 1) of a step."""
    return CallKey(f"{run}/{step}/{call}")


def merge_id(run: RunId, command: CommandId) -> str:
    """The id, in both runs, of the run merge that the command `command` to `run` requests."""
    return f"{run}/{command}"


def private_log(agent: AgentName) -> LogName:
    """The log that only `agent` reads: its tool calls and their results."""
    return LogName(f"{PRIVATE}{agent}")


def child_step_log(step: StepId) -> LogName:
    """The log that only a child step reads; no private log of an agent can have its name."""
    return LogName(f"{PRIVATE}{step}")


def step_of_log(log: LogName) -> StepId | None:
    """The child step that a log is for. Inverse: `child_step_log`; none for any other log."""
    owner = log.removeprefix(PRIVATE)
    return StepId(owner) if owner != log and is_step_id(owner) else None


def named_readers(log: str) -> tuple[str, ...]:
    """The agents in the name of a log `readers:A+B`; empty for other logs."""
    return tuple(log[len(READERS) :].split("+")) if log.startswith(READERS) else ()


def artifact_log(name: str) -> LogName:
    """The log of an artifact, which has operations instead of messages."""
    return LogName(f"{ARTIFACT}{name}")


def is_artifact(log: str) -> bool:
    """Whether a log is that of an artifact, which is never part of a transcript."""
    return log.startswith(ARTIFACT)


def is_private_log(log: str) -> bool:
    """Whether a log is that of one agent or of one child step."""
    return log.startswith(PRIVATE)


def is_group_log(log: str) -> bool:
    """Whether a log is that of a group."""
    return log.startswith(GROUP)


PRIVATE = "private:"
"""The prefix of logs of one agent or one child step."""
GROUP = "group:"
"""The prefix of logs of groups."""
ARTIFACT = "artifact:"
"""The prefix of logs of artifacts."""
READERS = "readers:"
"""The prefix of logs that name their readers."""
PUBLIC = LogName("public")
CREW = "crew"
"""The author of messages of the run itself, such as errors."""
