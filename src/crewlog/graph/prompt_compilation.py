"""The compilation of a run's prompt, before the crew starts.

A run that is started with a prompt has an empty plan first. One call after another compiles the
prompt; then people approve the definition that it compiles to, by its hash. Meanwhile the run
pauses, stops, continues as new and answers queries like any run.

    PromptReceived → (PromptRead)* → PromptCompiled → InterruptRaised(approval, hash)
        → DefinitionApproved → RunStarted …
        → DefinitionEdited → InterruptRaised(approval, another hash) …
        → DefinitionRejected → RunStopped
    PromptReceived → (PromptRead)* → PromptCompileFailed → RunFailed(InvalidPrompt)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

from crewlog.canonical_json import hash_json
from crewlog.errors import ApprovalMismatch, CommandRejected, InternalError
from crewlog.graph.interrupts import StopAnswer, check_answer
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import CallRequest, RunContext
from crewlog.ids import AgentName, CommandId, ContentHash, CrewName, StepId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import CompilePrompt, CompilePromptResult, PrepareRunResult
from crewlog.state.carry import PromptCarry
from crewlog.state.excerpt import excerpt
from crewlog.state.model import Call, Interrupt, NoReading, PromptDiagnostic, PromptState

STEP = StepId("prompt")
"""The step of the calls that compile. No step of a node has an id without a `#`."""
COMPILER = AgentName("compiler")
"""The agent that the usage of the prompt's model is counted for."""
CHECK = "check_definition"
"""The call that validates, lowers and stores the definition that a prompt compiles to."""
INVALID = "InvalidPrompt"
NO_PLAN = GraphPlan(crew=CrewName(""), definition=ContentHash(""), nodes={}, agents={})
"""The plan of a run whose prompt is not compiled yet."""


StartCrew = Callable[[PromptCarry], Awaitable[None]]
"""Records the start of the crew whose plan is in force, with the draft's input."""


class PromptCompilation:
    """The part of a run that compiles its prompt.

    Args:
        run: The run.
        draft: What the compilation carries besides the state; none: the run has a crew.
        use: Puts a plan in force.
        start_crew: Starts the crew whose plan is in force.
    """

    def __init__(
        self,
        run: RunContext,
        draft: PromptCarry | None,
        use: Callable[[GraphPlan], None],
        start_crew: StartCrew,
    ) -> None:
        self._run = run
        self.draft = draft
        self._use = use
        self._start_crew = start_crew

    @property
    def is_active(self) -> bool:
        """Whether the run has no crew yet."""
        return self.draft is not None

    @property
    def definition(self) -> dict[str, Json] | None:
        """The definition that the prompt compiles to, as data; none before that."""
        return self.draft.definition if self.draft is not None else None

    @property
    def state(self) -> PromptState:
        """The prompt's part of the run's state."""
        if self._run.state.prompt is None:
            raise InternalError("cannot compile a prompt: the run has none")
        return self._run.state.prompt

    @property
    def _active_draft(self) -> PromptCarry:
        if self.draft is None:
            raise InternalError("cannot compile a prompt: the run has a crew already")
        return self.draft

    # -- calls --------------------------------------------------------------------------------

    def pending_calls(self, in_flight: Collection[tuple[StepId, int]]) -> Iterator[CallRequest]:
        """The next call: one that compiles the prompt, or validates the definition."""
        state, draft = self._run.state, self._active_draft
        if state.status != "running" or state.interrupts or in_flight or self.state.approved:
            return
        number = len(draft.replies) + 1
        if draft.definition is None:
            yield CallRequest(STEP, COMPILER, Call(call=number, attempt=draft.attempt))
        elif self._run.plan is NO_PLAN:
            yield CallRequest(STEP, COMPILER, Call(call=number, tool=CHECK))

    def compile_input(self) -> CompilePrompt:
        """The input of the next call that compiles."""
        draft = self._active_draft
        return CompilePrompt(
            prompt=self.state.text,
            registry=self.state.registry,
            reader=draft.reader,
            model=draft.model,
            replies=draft.replies,
            batch=self._run.journal.batch(),
            attempt=draft.attempt,
        )

    def apply_result(self, result: CompilePromptResult) -> None:
        """Applies the result of a call that compiles."""
        with self._run.journal.transaction:
            if result.reply is not None:
                replies = (*self._active_draft.replies, result.reply)
                self._update_draft(replies=replies, attempt=1)
                self._run.record(
                    j.PromptRead(
                        agent=COMPILER,
                        round=len(replies),
                        model=result.model,
                        usage=result.usage,
                        errors=result.errors,
                        ending=result.reply.ending if isinstance(result.reply, NoReading) else "",
                    )
                )
            if result.again:
                return
            if result.definition is None:
                self._run.record(
                    j.PromptCompileFailed(reader=result.reader, diagnostics=result.diagnostics)
                )
                self._fail(result.diagnostics)
                return
            self._update_draft(definition=result.definition)
            self._run.record(
                j.PromptCompiled(
                    definition=hash_json(result.definition),
                    crew=CrewName(str(result.definition.get("crew", ""))),
                    reader=result.reader,
                    diagnostics=result.diagnostics,
                    requirements=result.requirements,
                )
            )

    def apply_failure(self, error: str, error_type: str) -> None:
        """Applies a call that failed for good: people are asked, or the run fails."""
        if error_type == "InvalidDefinition":  # the registry of the prompt, or the definition
            error = f"the prompt makes no crew: {error}"
            self._run.record(j.RunFailed(error=error, error_type=INVALID))
            return
        # The forms may read the prompt where the model failed.
        forms = ("forms",) if self._active_draft.reader == "auto" else ()
        self._run.ask(
            "step_failed",
            f"the prompt could not be compiled: {excerpt(error, 300)}",
            options=("retry", *forms, "stop"),
            detail=error,
        )

    def ask_for_approval(self, prepared: PrepareRunResult) -> None:
        """Puts the plan of a valid definition in force, and asks people to approve it."""
        plan = GraphPlan.from_json(prepared.plan)
        self._use(plan)
        self._update_draft(definition=prepared.definition)
        diagnostics = self.state.diagnostics
        count = len(diagnostics)
        suffix = f", with {count} remark{'s' * (count != 1)}" if count else ""
        self._run.record(
            j.InterruptRaised(
                interrupt=Interrupt.model_validate(
                    {
                        "id": f"i{self._run.state.interrupt_count + 1}",
                        "kind": "approval",
                        "question": f"Run the crew {plan.crew!r}{suffix}?",
                        "detail": "\n".join(
                            [f"definition {plan.definition}", *map(str, diagnostics)]
                        ),
                        "hash": plan.definition,
                    }
                ),
            )
        )

    def _update_draft(self, **changes: Json) -> None:
        self.draft = self._active_draft.model_copy(update=changes)

    def _fail(self, diagnostics: Sequence[PromptDiagnostic]) -> None:
        lines = "\n".join(map(str, diagnostics))
        error = f"the prompt makes no crew:\n{lines}"
        self._run.record(j.RunFailed(error=error, error_type=INVALID))

    # -- answers ------------------------------------------------------------------------------

    def answer(
        self, asked: Interrupt, decision: str, *, by: str, command: CommandId, reason: str = ""
    ) -> None:
        """Records and applies an answer, other than an edit of the definition.

        Raises:
            CommandRejected: the decision is not an option.
            StopAnswer: the answer ends the run; the caller stops it as the `stop` signal does.
        """
        check_answer(asked, decision)
        self._run.record(
            j.InterruptAnswered(interrupt=asked.id, decision=decision, by=by, command=command)
        )
        if decision == "stop":
            raise StopAnswer
        if decision == "forms":
            self._update_draft(reader="forms", replies=())
        elif asked.kind != "approval":  # `retry`
            self._update_draft(attempt=self._active_draft.attempt + 1)
        elif asked.hash is None:
            raise InternalError(f"the approval {asked.id!r} names no definition")
        elif decision == asked.options[0]:
            self._run.record(j.DefinitionApproved(definition=asked.hash, by=by))
        else:
            self._run.record(j.DefinitionRejected(definition=asked.hash, by=by, reason=reason))
            because = " ".join(filter(None, (by, "rejected the crew")))
            self._run.record(j.RunStopped(because=f"{because}: {reason}" if reason else because))

    def edit(
        self, asked: Interrupt, prepared: PrepareRunResult, *, by: str, command: CommandId
    ) -> ContentHash:
        """Replaces the definition with an edited one, and asks people to approve it."""
        self._run.record(
            j.InterruptAnswered(interrupt=asked.id, decision="edit", by=by, command=command)
        )
        definition = hash_json(prepared.definition)
        crew = CrewName(str(prepared.definition.get("crew", "")))
        self._run.record(j.DefinitionEdited(definition=definition, crew=crew, by=by))
        self.ask_for_approval(prepared)
        return definition

    # -- the crew -----------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether the crew may start: people approved it, and the run is not paused or ending."""
        return (
            self.is_active
            and self.state.approved is not None
            and self._run.state.status == "running"
        )

    async def start_crew(self) -> None:
        """Starts the crew of the approved definition.

        Raises:
            InternalError: the plan in force, or the definition, is not the approved one.
        """
        draft, approved, plan = self._active_draft, self.state.approved, self._run.plan
        if (
            approved is None
            or plan.definition != approved
            or hash_json(draft.definition) != approved
        ):
            raise InternalError(
                f"cannot start the crew: the plan is of the definition {plan.definition!r}, "
                f"and people approved {approved!r}"
            )
        self.draft = None
        await self._start_crew(draft)


def check_answer_hash(asked: Interrupt, answer_hash: str) -> None:
    """Checks that an answer names the definition of the interrupt.

    Raises:
        ApprovalMismatch: it names another one.
    """
    if answer_hash and answer_hash != (asked.hash or ""):
        about = f"about the definition {asked.hash}" if asked.hash else "about no definition"
        raise ApprovalMismatch(
            f"{asked.id!r} is {about}, and the answer names {answer_hash}",
            remedy="Read the interrupt again: the query `interrupts` has the current definition.",
        )


def edit_rejection(asked: Interrupt) -> CommandRejected:
    """The error for an edit of an interrupt that accepts none."""
    return CommandRejected(
        f"cannot answer {asked.id!r} with an edit",
        remedy=f"Choose one of its options: {', '.join(asked.options)}.",
    )
