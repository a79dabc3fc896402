"""The rows of the table: their names, what they mean, their targets, and the case of each.

Names are stable: programs compare them over versions. Later ones are added, none is renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Value = float | int | str | None
Flat = dict[str, Value]


@dataclass(frozen=True)
class Target:
    """What a figure should be, and whether it is."""

    text: str
    verdict: Callable[[Mapping[str, Value]], str]
    """Of all figures: "met", "missed", "not shown", or nothing where one that it needs is not."""


@dataclass(frozen=True)
class Spec:
    """A name and what it means."""

    name: str
    what: str
    target: Target | None = None


def at_most(name: str, limit: float) -> Target:
    return Target(f"≤ {limit:g}", lambda found: _holds(found.get(name), lambda v: v <= limit))


def at_least(name: str, limit: float) -> Target:
    return Target(f"≥ {limit:g}", lambda found: _holds(found.get(name), lambda v: v >= limit))


def below(name: str, limit: float) -> Target:
    return Target(f"< {limit:g}", lambda found: _holds(found.get(name), lambda v: v < limit))


def surely_at_most(name: str, limit: float) -> Target:
    """As `at_most`, of the whole interval of the median: one on both sides shows nothing."""
    return _surely(name, f"≤ {limit:g}", lambda value: value <= limit)


def surely_below(name: str, limit: float) -> Target:
    """As `below`, of the whole interval of the median: one on both sides shows nothing."""
    return _surely(name, f"< {limit:g}", lambda value: value < limit)


def _surely(name: str, text: str, test: Callable[[float], bool]) -> Target:
    def verdict(found: Mapping[str, Value]) -> str:
        if found.get(name) is None:
            return ""
        ends = found.get(f"least_{name}"), found.get(f"most_{name}")
        said = {_holds(end, test) for end in ends}
        return said.pop() or "not shown" if len(said) == 1 else "not shown"

    return Target(text, verdict)


def _holds(value: Value, test: Callable[[float], bool]) -> str:
    if not isinstance(value, int | float):
        return ""
    return "met" if test(value) else "missed"


MESSAGE_BYTES = 400
"""The text of the message that every step makes."""

SPECS_OF: dict[str, tuple[Spec, ...]] = {
    "steps": (
        Spec("step_ms_10", "a step of a run of 10, ms"),
        Spec("step_ms_100", "a step of a run of 100, ms"),
        Spec("step_ms_1000", "a step of a run of 1,000, ms"),
        Spec(
            "step_ms_apart",
            "the slowest of the three by the fastest",
            at_most("step_ms_apart", 1.1),
        ),
        Spec("step_vs_bare_10", "by a bare workflow's", surely_at_most("step_vs_bare_10", 1.3)),
        Spec("step_vs_bare_100", "by a bare workflow's", surely_at_most("step_vs_bare_100", 1.3)),
        Spec(
            "step_vs_bare_1000", "by a bare workflow's", surely_at_most("step_vs_bare_1000", 1.35)
        ),
        Spec(
            "step_vs_bare_100_same_process",
            "by one in a process like the engine's",
            at_most("step_vs_bare_100_same_process", 1.25),
        ),
        Spec("step_vs_plugin_10", "by the LangGraph plugin's", below("step_vs_plugin_10", 1)),
        Spec("step_vs_plugin_100", "by the LangGraph plugin's", below("step_vs_plugin_100", 1)),
        Spec("step_vs_plain_10", "by plain LangGraph's, which is not durable in the same way"),
        Spec("step_vs_plain_100", "the same"),
        Spec("bare_step_ms_10", "a bare workflow's step, ms"),
        Spec("bare_step_ms_100", "the same"),
        Spec("bare_step_ms_1000", "the same"),
        Spec("plugin_step_ms_10", "the plugin's step, ms"),
        Spec("plugin_step_ms_100", "the same"),
        Spec("plain_step_ms_10", "plain LangGraph's step, Postgres saver, ms"),
        Spec("plain_step_ms_100", "the same"),
        Spec("plain_step_ms_1000", "the same"),
        Spec(
            "history_bytes_per_step_10",
            "history of a step, bytes, the message included",
            at_most("history_bytes_per_step_10", 1200 + MESSAGE_BYTES),
        ),
        Spec(
            "history_bytes_per_step_100",
            "the same",
            at_most("history_bytes_per_step_100", 1200 + MESSAGE_BYTES),
        ),
        Spec("history_bytes_per_step_1000", "the same"),
        Spec(
            "history_growth",
            "bytes of a step at 1,000 by those at 10",
            at_most("history_growth", 1.05),
        ),
        Spec("bare_history_bytes_per_step_100", "a bare workflow's"),
        Spec("plugin_history_bytes_per_step_100", "the plugin's"),
        Spec(
            "events_per_step", "events of a step of a run of 100", at_most("events_per_step", 6.1)
        ),
        Spec("events_per_step_1000", "the same of a run of 1,000, its seams included"),
    ),
    "fanout": (
        Spec("events_per_step_fanout_32", "events of a step of 32 side by side"),
        Spec("fanout_ms_32", "32 steps side by side, ms"),
        Spec("fanout_vs_bare_32", "by a bare workflow's", surely_at_most("fanout_vs_bare_32", 1.6)),
    ),
    "lanes": (
        Spec(
            "lanes_vs_critical_path",
            "three uneven lanes by the longest of them alone",
            at_most("lanes_vs_critical_path", 1.05),
        ),
        Spec("lanes_vs_sleep", "the same lanes by what the longest one sleeps"),
        Spec("plain_lanes_vs_critical_path", "the same lanes by the longest, plain LangGraph"),
    ),
    "pool": (
        Spec(
            "pool_vs_optimum",
            "five steps of a pool of two by what they sleep where none waits without need",
            at_most("pool_vs_optimum", 1.05),
        ),
        Spec("pool_overhead_ms", "what the engine takes of each of these steps, ms"),
        Spec("pool_short_vs_optimum", "the same pool with naps of 0.5 to 1 s by their optimum"),
        Spec(
            "turn_tools_vs_longest",
            "a turn that calls four tools at once by what the longest one sleeps",
            at_most("turn_tools_vs_longest", 1.05),
        ),
    ),
    "hub": (
        Spec(
            "hub_turn_1000_vs_10",
            "a step of a session's last turns of 1,000 by one of a session of ten turns",
            at_most("hub_turn_1000_vs_10", 1.1),
        ),
        Spec("hub_step_ms_1000", "the one, ms"),
        Spec("hub_step_ms_10", "the other, ms"),
        Spec("hub_longest_history", "events of the longest execution of that session"),
        Spec("hub_carry_bytes_1000", "its state after 1,000 turns, bytes of JSON"),
    ),
    "throughput": (
        Spec("throughput_steps_per_s", "steps a second, 100 runs of 10 at once"),
        Spec("throughput_vs_bare", "by a bare workflow's", at_least("throughput_vs_bare", 0.9)),
        Spec(
            "throughput_vs_bare_same_process",
            "by one in a process like the engine's",
            at_least("throughput_vs_bare_same_process", 0.75),
        ),
    ),
    "slow_models": (
        Spec(
            "slow_models_seconds",
            "50 runs of 3 model calls of 2 s each at once, s",
            at_most("slow_models_seconds", 8),
        ),
    ),
    "replay": (
        Spec("replay_events_per_s", "events replayed a second"),
        Spec("replay_vs_bare", "by a bare workflow's", at_least("replay_vs_bare", 0.7)),
        Spec(
            "replay_vs_bare_same_sandbox",
            "by a bare workflow's in a process like the engine's",
            at_least("replay_vs_bare_same_sandbox", 0.7),
        ),
    ),
    "compile": (
        Spec("compile_100_ms", "compiling a plan of 100 agents, ms"),
        Spec(
            "compile_100_vs_langgraph",
            "by StateGraph.compile of the same nodes and edges",
            at_most("compile_100_vs_langgraph", 3),
        ),
    ),
    "memory": (
        Spec("rss_per_run_kb", "memory of a cached run, KiB"),
        Spec("bare_rss_per_run_kb", "a bare workflow's"),
    ),
    "tools": (
        Spec("tool_ms", "a short tool call, an activity, ms"),
        Spec("local_tool_ms", "the same tool placed local, ms"),
    ),
    "authority": (
        Spec("authority_off_ms", "the same call where the next is measured, ms"),
        Spec("authority_on_ms", "a short tool call under rules, quotas and audiences, ms"),
        Spec(
            "authority_on_vs_off",
            "by the same call of a crew without any",
            surely_at_most("authority_on_vs_off", 1.05),
        ),
        Spec(
            "authority_on_vs_off_cpu", "the same in processor time of the worker, the run's whole"
        ),
        Spec("authority_daily_quota_vs_off", "with a quota that the store counts, by the same"),
        Spec("authority_daily_quota_vs_off_cpu", "the same in processor time"),
    ),
    "swap": (
        Spec("swap_ms", "a swap, from the accepted change to the new execution's first task, ms"),
        Spec("can_ms", "a bare workflow's continue-as-new, ms"),
        Spec("swap_vs_can", "the one by the other", at_most("swap_vs_can", 1.05)),
        Spec("swap_vs_can_same_process", "by that of one in a process like the engine's"),
        Spec(
            "swap_10mb_vs_1kb",
            "a swap with a transcript of 10 MB by one of 1 KB",
            at_most("swap_10mb_vs_1kb", 1.1),
        ),
        Spec(
            "carry_bytes_20_agents",
            "what a run of 20 agents carries, bytes of JSON",
            below("carry_bytes_20_agents", 32 * 1024),
        ),
    ),
    "graphs": (
        Spec("split_ms", "a split, from the command until the part answers, ms"),
        Spec("merge_ms", "a merge, from the command until the one run has the other in it, ms"),
        Spec(
            "bare_part_ms",
            "a bare workflow starts a child and continues as new, until both answer, ms",
        ),
        Spec("split_vs_bare", "the first by the last", at_most("split_vs_bare", 3)),
        Spec("merge_vs_bare", "the second by the last", at_most("merge_vs_bare", 3)),
        Spec("split_vs_bare_same_process", "by that of one in a process like the engine's"),
        Spec("merge_vs_bare_same_process", "the same"),
        Spec(
            "split_10mb_vs_1kb",
            "a split with a transcript of 10 MB by one of 1 KB",
            at_most("split_10mb_vs_1kb", 1.1),
        ),
        Spec(
            "merge_10mb_vs_1kb",
            "a merge where the joining run has a transcript of 10 MB by one of 1 KB",
            at_most("merge_10mb_vs_1kb", 1.1),
        ),
    ),
    "topology": (
        Spec(
            "topology_ms",
            "the slowest operation on 200 creatures and 400 channels, ms",
            surely_below("topology_ms", 5),
        ),
        Spec(
            "topology_worker_ms", "the same, with all that a worker does for it on a live run, ms"
        ),
    ),
    "idle": (
        Spec(
            "idle_500_creatures_mb",
            "memory of a worker with 500 creatures at rest in 100 graphs, MB",
            below("idle_500_creatures_mb", 300),
        ),
        Spec(
            "idle_500_creatures_events",
            "events that their histories get in 20 s",
            at_most("idle_500_creatures_events", 0),
        ),
        Spec(
            "idle_500_creatures_queries",
            "connections of the store that are used in that time",
            at_most("idle_500_creatures_queries", 0),
        ),
        Spec("idle_500_creatures_cpu_ms", "processor time of the worker in that time, ms"),
    ),
    "fork": (
        Spec(
            "fork_ms_over_start",
            "forking a run of 1,000 messages, until its first call, more than a start takes, ms",
            below("fork_ms_over_start", 100),
        ),
        Spec(
            "fork_stored_bytes", "rows that a fork adds, bytes", below("fork_stored_bytes", 10_000)
        ),
        Spec(
            "checkpoint_load_ms",
            "loading any checkpoint of a run of 1,000 steps, the slowest, ms",
            below("checkpoint_load_ms", 50),
        ),
    ),
    "pickup": (
        Spec(
            "cold_pickup_s",
            "a new worker's first task of an execution of 2,000 events, s",
            below("cold_pickup_s", 2),
        ),
    ),
    "codec": (
        Spec(
            "codec_on_vs_off",
            "a step with payloads and rows encrypted, by one without",
            surely_at_most("codec_on_vs_off", 1.05),
        ),
        Spec("codec_on_vs_off_cpu", "the same in processor time of the worker, the run's whole"),
        Spec("codec_history_bytes_per_step", "history of a step with encryption, bytes"),
    ),
    "stages": (
        Spec(
            "stage_tokens_vs_monolith",
            "tokens of the stage crew by those of one agent with all tools and context",
            at_most("stage_tokens_vs_monolith", 0.333),
        ),
        Spec("stage_call_tokens_vs_monolith", "the same of a call"),
        Spec(
            "stage_tokens_vs_searching_monolith",
            "by those of one agent that searches the catalogue",
        ),
        Spec("stage_call_tokens_vs_searching_monolith", "the same of a call"),
        Spec("stage_tokens", "tokens of the stage crew, in all"),
        Spec("stage_call_tokens", "of a call"),
        Spec("monolith_tokens", "tokens of the monolith, in all"),
        Spec("monolith_call_tokens", "of a call"),
    ),
}
"""The rows that each case measures, by the name of the case."""
SPECS = tuple(spec for specs in SPECS_OF.values() for spec in specs)
NAMES = tuple(spec.name for spec in SPECS)
CASE_OF = {spec.name: case for case, specs in SPECS_OF.items() for spec in specs}
"""The case that measures a row."""
