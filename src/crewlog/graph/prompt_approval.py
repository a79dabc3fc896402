"""A run that has no crew yet: its prompt is compiled, and people are asked about what came out.

It stands where the engine will stand, with the same ledger: so pausing, stopping, continuing as
new, questions and the journal are what they are in any run. Once people have approved a definition
by its hash, and the run may move, `crew` makes the engine of that definition and no other.

    PromptReceived → (PromptRead)* → PromptCompiled → InterruptRaised(approval, hash)
        → DefinitionApproved → RunStarted …
        → DefinitionEdited → InterruptRaised(approval, another hash) …
        → DefinitionRejected → RunStopped
    PromptReceived → (PromptRead)* → PromptCompileFailed → RunFailed(InvalidPrompt)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from crewlog.canonical_json import hash_json
from crewlog.errors import ApprovalMismatch, CommandRejected, InternalError
from crewlog.graph.answers import StopAnswer, check_answer
from crewlog.graph.engine import Engine, Order
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import RunFacts
from crewlog.ids import AgentName, CommandId, ContentHash, CrewName, RunId, StepId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import CompilePrompt, CompilePromptResult, PrepareRunResult
from crewlog.state.carry import PromptCarry
from crewlog.state.excerpt import brief
from crewlog.state.model import (
    Call,
    CrewState,
    Interrupt,
    NoReading,
    PromptDiagnostic,
    PromptState,
)
from crewlog.state.recorder import Ledger

STEP = StepId("prompt")
"""What the calls belong to before there are steps; no step's id is without a `#`."""
COMPILER = AgentName("compiler")
"""Who asks the model that reads a prompt."""
CHECK = "check_definition"
"""The call that checks, lowers and stores what a prompt makes."""
INVALID = "InvalidPrompt"
NO_PLAN = GraphPlan(crew=CrewName(""), definition=ContentHash(""), nodes={}, agents={})
"""The plan of a run whose prompt is not compiled yet."""


class PromptApproval(RunFacts):
    """A run between its prompt and its crew.

    Args:
        ledger: Its state: empty, or carried here from another execution.
        draft: What it knows besides the state.
        plan: The plan of what the prompt makes, once there is one.
    """

    def __init__(self, ledger: Ledger, draft: PromptCarry, plan: GraphPlan = NO_PLAN) -> None:
        super().__init__(plan, ledger)
        self.draft = draft

    @classmethod
    def begin(
        cls, run: RunId, text: str, draft: PromptCarry, *, registry: str, at: int
    ) -> PromptApproval:
        """A new run that has a prompt."""
        drafting = cls(Ledger(CrewState(run=run)), draft)
        drafting.at = at
        drafting.record(
            j.PromptReceived(
                run=run,
                prompt=hash_json(text),
                inline=text,
                registry=registry,
                by=draft.by,
            )
        )
        return drafting

    @property
    def prompt(self) -> PromptState:
        """What the state says of the prompt."""
        if self.state.prompt is None:
            raise InternalError("a run without a prompt is drafted")
        return self.state.prompt

    @property
    def definition(self) -> dict[str, Json] | None:
        """What is asked about, as data."""
        return self.draft.definition

    def goes_on(self, step: StepId) -> bool:
        """Whether anybody still waits for the calls of a step: there are none yet but ours."""
        return step == STEP

    # -- what is to be done -------------------------------------------------------------------

    async def settle(self, in_flight: Collection[tuple[StepId, int]]) -> None:
        """Nothing moves by itself: calls answer, and people do."""

    def orders(self, in_flight: Collection[tuple[StepId, int]]) -> Iterator[Order]:
        """The call to make now: the prompt is compiled, and what it makes is checked."""
        state = self.state
        if state.status != "running" or state.interrupts or in_flight or self.prompt.approved:
            return
        number = len(self.draft.replies) + 1
        if self.draft.definition is None:
            yield Order(STEP, COMPILER, Call(call=number, attempt=self.draft.attempt))
        elif self.plan is NO_PLAN:
            yield Order(STEP, COMPILER, Call(call=number, tool=CHECK))

    def compile_input(self) -> CompilePrompt:
        """The input of the next call that compiles."""
        return CompilePrompt(
            prompt=self.prompt.text,
            registry=self.prompt.registry,
            reader=self.draft.reader,
            model=self.draft.model,
            replies=self.draft.replies,
            batch=self.ledger.batch(),
            attempt=self.draft.attempt,
        )

    # -- what came of it ----------------------------------------------------------------------

    def compiled(self, result: CompilePromptResult) -> None:
        """Applies what the compiler answered."""
        if result.reply is not None:
            replies = (*self.draft.replies, result.reply)
            self._update_carry(replies=replies, attempt=1)
            self.record(
                j.PromptRead(
                    agent=COMPILER,
                    round=len(replies),
                    model=result.model,
                    usage=result.usage,
                    faults=result.faults,
                    ending=result.reply.ending if isinstance(result.reply, NoReading) else "",
                )
            )
        if result.again:
            return
        if result.definition is None:
            self.record(j.PromptCompileFailed(reader=result.reader, remarks=result.remarks))
            self._refuse(result.remarks)
            return
        self._update_carry(definition=result.definition)
        self.record(
            j.PromptCompiled(
                definition=hash_json(result.definition),
                crew=CrewName(str(result.definition.get("crew", ""))),
                reader=result.reader,
                remarks=result.remarks,
                requirements=result.requirements,
            )
        )

    def opened(self, result: PrepareRunResult) -> None:
        """Applies the check of what the prompt makes: people are asked about it."""
        self._ask_for_approval(result)

    async def apply_call_failure(
        self, step: StepId, number: int, error: str, error_type: str
    ) -> None:
        """Applies a call that failed for good."""
        if error_type == "InvalidDefinition":  # of the registry that it names, or of the crew
            self.record(j.RunFailed(error=f"the prompt makes no crew: {error}", error_type=INVALID))
            return
        # The forms may read what the model could not be asked for.
        other = ("forms",) if self.draft.reader == "auto" else ()
        self.ask(
            "step_failed",
            f"the prompt could not be compiled: {brief(error, 300)}",
            options=("retry", *other, "stop"),
            detail=error,
        )

    def _update_carry(self, **changes: Json) -> None:
        self.draft = self.draft.model_copy(update=changes)

    def _refuse(self, remarks: Sequence[PromptDiagnostic]) -> None:
        told = "\n".join(str(remark) for remark in remarks)
        error = f"the prompt makes no crew:\n{told}"
        self.record(j.RunFailed(error=error, error_type=INVALID))

    def _ask_for_approval(self, opened: PrepareRunResult) -> None:
        self.plan = GraphPlan.from_json(opened.plan)
        self._update_carry(definition=opened.definition)
        count = len(self.prompt.remarks)
        notes = f", with {count} remark{'s' * (count != 1)}" if count else ""
        self.record(
            j.InterruptRaised(
                interrupt=Interrupt.model_validate(
                    {
                        "id": f"i{self.state.asked + 1}",
                        "kind": "approval",
                        "question": f"Run the crew {self.plan.crew!r}{notes}?",
                        "detail": "\n".join(
                            [f"definition {self.plan.definition}", *map(str, self.prompt.remarks)]
                        ),
                        "hash": self.plan.definition,
                    }
                ),
            )
        )

    # -- what people say ----------------------------------------------------------------------

    def answer(
        self, asked: Interrupt, decision: str, *, by: str, command: CommandId, reason: str = ""
    ) -> None:
        """Records an answer that is no edit, and does what it says.

        Raises:
            CommandRejected: it is none of the options.
            StopAnswer: it ends the run; the caller stops it as it would by the `stop` signal.
        """
        check_answer(asked, decision)
        self.record(
            j.InterruptAnswered(interrupt=asked.id, decision=decision, by=by, command=command)
        )
        if decision == "stop":
            raise StopAnswer
        if decision == "forms":
            self._update_carry(reader="forms", replies=())
        elif asked.kind != "approval":  # `retry`
            self._update_carry(attempt=self.draft.attempt + 1)
        elif asked.hash is None:
            raise InternalError(f"the approval {asked.id!r} names no definition")
        elif decision == asked.options[0]:
            self.record(j.DefinitionApproved(definition=asked.hash, by=by))
        else:
            self.record(j.DefinitionRejected(definition=asked.hash, by=by, reason=reason))
            because = " ".join(filter(None, (by, "rejected the crew")))
            self.record(j.RunStopped(because=f"{because}: {reason}" if reason else because))

    def edit(
        self, asked: Interrupt, opened: PrepareRunResult, *, by: str, command: CommandId
    ) -> ContentHash:
        """Takes a definition that people changed, and asks about it anew."""
        self.record(
            j.InterruptAnswered(interrupt=asked.id, decision="edit", by=by, command=command)
        )
        definition = hash_json(opened.definition)
        crew = CrewName(str(opened.definition.get("crew", "")))
        self.record(j.DefinitionEdited(definition=definition, crew=crew, by=by))
        self._ask_for_approval(opened)
        return definition

    # -- the crew -----------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the crew may begin: it is approved, and the run is not paused or ending."""
        return self.prompt.approved is not None and self.state.status == "running"

    async def crew(self) -> Engine:
        """The engine of the approved definition: of its hash, and of no other."""
        approved, definition = self.prompt.approved, self.draft.definition
        if (
            approved is None
            or self.plan.definition != approved
            or hash_json(definition) != approved
        ):
            raise InternalError(
                f"the plan at hand is of the definition {self.plan.definition!r}, and "
                f"{approved!r} was approved"
            )
        return await Engine.begin(
            self.plan,
            self.state.run,
            input_text=self.draft.input,
            files=self.draft.files,
            by=self.draft.by,
            command=self.draft.command,
            at=self.at,
            ledger=self.ledger,
        )


def check_answer_hash(asked: Interrupt, given: str) -> None:
    """Checks that an answer is about the definition that is asked about.

    Raises:
        ApprovalMismatch: it names another one.
    """
    if given and given != (asked.hash or ""):
        about = f"about the definition {asked.hash}" if asked.hash else "about no definition"
        raise ApprovalMismatch(
            f"{asked.id!r} is {about}, and the answer names {given}",
            remedy="Look at the question again: `interrupts` has the definition as it is now.",
        )


def edit_rejection(asked: Interrupt) -> CommandRejected:
    """The refusal of an edit that a question does not take."""
    return CommandRejected(
        f"{asked.id!r} takes no edit",
        remedy=f"Its options are: {', '.join(asked.options)}.",
    )
