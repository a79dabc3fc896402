"""A NewType for every id that crosses a boundary, and how derived ids are spelled.

All ids are plain strings on the wire. Formats:

| id | example | made of |
| --- | --- | --- |
| `RunId` | `music-7f3a` | the Temporal workflow id |
| `StepId` | `backend#2` | node name, `#`, visit number from 1 |
| | `backend#2.7` | the step of an item: the visit that maps, `.`, item number from 1 |
| `CallKey` | `music-7f3a/backend#2/3` | run, step, call number from 1: an idempotency key |
| `ContentHash` | 27 characters | see `crewlog.canonical_json` |
"""

from functools import lru_cache
from typing import NewType

RunId = NewType("RunId", str)
"""A run: the Temporal workflow id, the same over all its executions."""
CrewName = NewType("CrewName", str)
AgentName = NewType("AgentName", str)
ToolName = NewType("ToolName", str)
NodeName = NewType("NodeName", str)
FlagName = NewType("FlagName", str)
StepId = NewType("StepId", str)
CallKey = NewType("CallKey", str)
InterruptId = NewType("InterruptId", str)
CommandId = NewType("CommandId", str)
RESERVED = "crewlog:"
"""Ids of commands that begin so are the run's own."""
GROUP_COMMAND = f"{RESERVED}group/"
"""Those of changes that agents make of their graph: the step and the call follow."""
LogName = NewType("LogName", str)
"""`public`, `group:G`, `private:A`, `channel:C`, `readers:A+B`, or `private:STEP` of an item's
step; or `artifact:NAME`, whose entries are operations, and no messages."""
ContentHash = NewType("ContentHash", str)
Position = NewType("Position", int)
"""A place in a run's journal, from 1, without gaps."""


PARSED = 8192
"""Step ids whose parts are remembered: every completion asks for those of the whole frontier."""


def step_id(node: NodeName, visit: int) -> StepId:
    """The id of the visit `visit` (from 1) to `node`."""
    return StepId(f"{node}#{visit}")


@lru_cache(maxsize=PARSED)
def node_of(step: StepId) -> NodeName:
    """The node that a step visits."""
    return NodeName(step.rpartition("#")[0])


def child_step_id(visit: StepId, item: int) -> StepId:
    """The id of the step for the item `item` (from 1) of a visit that has a step for each."""
    return StepId(f"{visit}.{item}")


@lru_cache(maxsize=PARSED)
def item_number(step: StepId) -> int:
    """The number of the item that a step is for; 0 for a visit itself."""
    return int(step.rpartition("#")[2].partition(".")[2] or 0)


@lru_cache(maxsize=PARSED)
def visit_of(step: StepId) -> StepId:
    """The visit that an item's step belongs to; any other step is its own."""
    node, _, visit = step.rpartition("#")
    return StepId(f"{node}#{visit.partition('.')[0]}")


def idempotency_key(run: RunId, step: StepId, call: int) -> CallKey:
    """The idempotency key of the call `call` (from 1) of a step."""
    return CallKey(f"{run}/{step}/{call}")


def merge_id(run: RunId, command: CommandId) -> str:
    """The id of the merge that the command `command` to `run` asks for, in both runs."""
    return f"{run}/{command}"


def private_log(agent: AgentName) -> LogName:
    """The log that only `agent` reads: its tool calls and their results."""
    return LogName(f"private:{agent}")


def child_step_log(step: StepId) -> LogName:
    """The log that only an item's step reads; no agent's own log can have its name."""
    return LogName(f"private:{step}")


def named_readers(log: str) -> tuple[str, ...]:
    """The agents that a log is for which names its readers, `readers:A+B`; none of any other."""
    return tuple(log[len(READERS) :].split("+")) if log.startswith(READERS) else ()


def artifact_log(name: str) -> LogName:
    """The log of an artifact: the operations that made it what it is, and no messages."""
    return LogName(f"{ARTIFACT}{name}")


def is_artifact(log: str) -> bool:
    """Whether a log is that of an artifact: it is never part of a transcript."""
    return log.startswith(ARTIFACT)


ARTIFACT = "artifact:"
"""What stands before an artifact's name in the name of its log."""
READERS = "readers:"
"""Names of logs that begin so go on with the agents that read them, and nobody else does."""
PUBLIC = LogName("public")
CREW = "crew"
"""Who speaks where it is neither people nor an agent: a run that tells of an error."""
