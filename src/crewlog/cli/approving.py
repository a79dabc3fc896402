"""`crewlog run PROMPT`: what was understood is shown, and a person approves, edits or rejects it.

What is run is the definition that was approved, by its address, and nothing else: an edit makes
another address, and is asked about again.
"""

from __future__ import annotations

import difflib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crewlog.cli.problems import report
from crewlog.cli.screen import Part, Screen, plain, plain_lines
from crewlog.definition.content import definition_hash
from crewlog.errors import InvalidDefinition, UsageError

if TYPE_CHECKING:
    from crewlog.definition.model import CrewDefinition
    from crewlog.prompt.compiled import CompiledPrompt
    from crewlog.prompt.registry import Registry

EDITORS = ("sensible-editor", "nano", "vim", "vi")
"""What edits where neither VISUAL nor EDITOR is set: the first that is there."""


class Rejected(Exception):
    """A person said no; `reason` is what they said."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def why_not_waived(compiled: CompiledPrompt) -> str:
    """Why `--yes` does not stand for a person's approval; empty where it does."""
    definition = compiled.definition
    policy = "required" if definition is None else definition.approval
    if compiled.understood and policy == "understood":
        return ""
    if policy == "required":
        return "its policy is `approval: required`: a person must approve it, always"
    return "its policy is `approval: understood`, and not everything in the prompt was understood"


def approved(
    screen: Screen, compiled: CompiledPrompt, registry: Registry, *, yes: bool
) -> CrewDefinition:
    """The definition that may run: the compiled one, or a person's edit of it.

    Args:
        screen: Where it is asked; what was understood stands there already.
        compiled: The prompt, without errors.
        registry: What it may use; an edit may use no more.
        yes: Whether the caller approves in advance, as far as the crew's policy lets them.

    Raises:
        Rejected: a person said no.
        UsageError: nobody is here to approve, and nobody may do so in advance.
    """
    definition = compiled.definition
    if definition is None:
        raise UsageError("there is nothing to approve", place="crewlog run")
    why = why_not_waived(compiled)
    if yes and not why:
        _say(screen, "approved by --yes", definition)
        return definition
    if not screen.asks:
        _refuse(yes=yes, why=why, partial=not compiled.understood)
    if yes:
        screen.note(("▸ --yes does not approve this crew: ", "yellow"), why)
    draft = _Draft(_yaml(definition))
    try:
        found = _Approval(screen, definition, registry, draft).ask()
    except BaseException:
        if draft.changed:
            screen.line("")
            screen.line("  Your edit is kept in ", (str(draft.file), "cyan"))
        else:
            draft.remove()
        raise
    draft.remove()
    return found


def _refuse(*, yes: bool, why: str, partial: bool) -> None:
    if yes:
        raise UsageError(
            f"--yes does not approve this crew: {why}",
            remedy="Approve it at a terminal: the same command without a pipe.",
            place="crewlog run",
        )
    waive = "" if why else ", or approve it in advance: --yes"
    raise UsageError(
        "a crew made of a prompt needs a person's approval, and this is no terminal",
        remedy=f"Run it at a terminal{waive}. Or write it to a file, look at it, and run that: "
        f"crewlog compile PROMPT {'--allow-partial ' if partial else ''}--out crew.yaml",
        place="crewlog run",
    )


def _say(screen: Screen, what: str, definition: CrewDefinition) -> None:
    screen.line("")
    screen.line(("✓ ", "green"), what, ("  ", ""), (definition_hash(definition), "cyan"))


class _Draft:
    """The text that people edit, in a file that outlives whatever ends the editing."""

    def __init__(self, text: str) -> None:
        self.compiled = text
        self.file = Path(tempfile.mkdtemp(prefix="crewlog-")) / "crew.yaml"
        self.write(text)

    def write(self, text: str) -> None:
        """Puts another text in its place."""
        self.file.write_text(text, encoding="utf-8")

    @property
    def changed(self) -> bool:
        """Whether it is another text than was compiled."""
        try:
            return self.file.read_bytes() != self.compiled.encode()
        except OSError:
            return False

    def remove(self) -> None:
        """Removes the file."""
        shutil.rmtree(self.file.parent, ignore_errors=True)


class _Approval:
    """Asks until a definition is approved or rejected."""

    def __init__(
        self, screen: Screen, compiled: CrewDefinition, registry: Registry, draft: _Draft
    ) -> None:
        self.screen = screen
        self.compiled = compiled
        self.definition = compiled
        self.registry = registry
        self.draft = draft

    def ask(self) -> CrewDefinition:
        """The definition that was approved."""
        while True:
            question: list[Part] = [
                ("Run this crew?  ", "bold"),
                (definition_hash(self.definition), "cyan"),
            ]
            answer = choose(self.screen, question, ("approve", "edit", "reject"))
            if answer == "approve":
                _say(self.screen, "approved", self.definition)
                return self.definition
            if answer == "reject":
                raise Rejected(ask_words(self.screen, "Why?  (Enter: no reason)"))
            self.edit()

    def edit(self) -> None:
        """Opens the definition in the editor until it is valid, or the edit is given up.

        It is opened with what was typed last, faults and all.
        """
        while True:
            try:
                if not edited(self.draft.file, self.screen):
                    return
            except UsageError as error:  # no editor: there are two other answers
                self.screen.line("")
                report(error, as_json=False, debug=False)
                return
            try:
                definition = _read(self.draft.file, self.registry)
            except (InvalidDefinition, UsageError) as error:
                self.screen.line("")
                report(error, as_json=False, debug=False)
                if choose(self.screen, [("It has faults.", "bold")], ("edit", "drop")) == "edit":
                    continue
                self.draft.write(_yaml(self.definition))
                return
            break
        if definition_hash(definition) == definition_hash(self.definition):
            self.screen.line("")
            self.screen.line(("  Nothing was changed.", "dim"))
            return
        self.definition = definition
        self.show()

    def show(self) -> None:
        """What the edit changed, and the graph that it makes."""
        from crewlog.cli.pictures import show_picture  # noqa: PLC0415
        from crewlog.graph.lowering.plans import lower  # noqa: PLC0415

        self.screen.line("")
        show_diff(self.screen, _yaml(self.compiled), _yaml(self.definition))
        self.screen.line("")
        show_picture(self.screen, lower(self.definition))


def _yaml(definition: CrewDefinition) -> str:
    from crewlog.definition.write import to_yaml  # noqa: PLC0415

    return to_yaml(definition)


def _read(file: Path, registry: Registry) -> CrewDefinition:
    from crewlog.definition.load import read_text, text_of  # noqa: PLC0415
    from crewlog.prompt.offered import offered_form  # noqa: PLC0415

    return read_text(text_of(file), file.name, offered_form(registry))


def show_diff(screen: Screen, before: str, after: str) -> None:
    """What differs from the compiled crew, line by line."""
    styles = {"+": "green", "-": "red", "@": "dim"}
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "as compiled", "as edited", lineterm="", n=2
    )
    for line in lines:
        if not line.startswith(("---", "+++")):
            screen.line("  ", (plain_lines(line), styles.get(line[:1], "")), crop=True)


def choose(screen: Screen, question: Sequence[Part], options: Sequence[str]) -> str:
    """One of the options: its number, or its start.

    Raises:
        Rejected: nobody answers (Ctrl-D).
    """
    screen.line("")
    screen.line(("  ? ", "bold yellow"), *question)
    numbered: list[Part] = ["    "]
    for number, option in enumerate(options, 1):
        numbered += [(f"{number} ", "cyan"), f"{option}   "]
    screen.line(*numbered)
    while True:
        typed = _line(screen).strip().lower()
        if typed.isdigit() and 1 <= int(typed) <= len(options):
            return options[int(typed) - 1]
        begin = [option for option in options if typed and option.startswith(typed)]
        if len(begin) == 1:
            return begin[0]
        if typed:
            screen.line("    ", (f"Type one of: {', '.join(options)}.", "yellow"))


def ask_words(screen: Screen, question: str) -> str:
    """What somebody types; empty where nothing."""
    screen.line("")
    screen.line(("  ? ", "bold yellow"), (question, "bold"))
    try:
        return plain(_line(screen))
    except Rejected:
        return ""


def _line(screen: Screen) -> str:
    screen.out.print("    › ", style="bold cyan", end="")  # noqa: RUF001
    screen.out.file.flush()
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        screen.line("")  # what comes next begins beneath the `^C`
        raise
    if not line:
        screen.line("")
        raise Rejected("nobody answered")
    return line


def edited(file: Path, screen: Screen) -> bool:
    """Opens a file in a person's editor; whether what it leaves is to be taken.

    Raises:
        UsageError: there is no editor, or it cannot be started.
    """
    command = _editor()
    try:
        code = subprocess.run([*command, str(file)], check=False).returncode
    except OSError as error:
        raise UsageError(
            f"the editor {command[0]!r} cannot be started: {error.strerror}",
            remedy="Set VISUAL or EDITOR to one that is there.",
        ) from None
    if code != 0:
        screen.note(("▸ ", "yellow"), f"the editor ended with code {code}; nothing is taken")
    return code == 0


def _editor() -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        if os.environ.get(name, "").strip():
            try:
                return shlex.split(os.environ[name])
            except ValueError as error:
                raise UsageError(
                    f"{name} cannot be read: {error}",
                    remedy="Close its quotes, e.g. EDITOR='code --wait'.",
                    place="crewlog run",
                ) from None
    for editor in EDITORS:
        if shutil.which(editor):
            return [editor]
    raise UsageError(
        "there is no editor", remedy="Set EDITOR, e.g. EDITOR=nano.", place="crewlog run"
    )
