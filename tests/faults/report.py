"""What came of the scenarios: as JSON, and as a table for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .audit import Findings

FROZEN = "calls frozen"
"""The note of how many activities' workers were frozen until others had taken over."""


@dataclass
class Report:
    """What came of one scenario."""

    scenario: str
    seed: int
    findings: Findings = field(default_factory=Findings)
    faults: Counter[str] = field(default_factory=Counter)
    """The faults that were done: kills and freezes by point, restarts by what was restarted."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Figures that only this scenario has."""
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)
    """Those that concern no single run."""

    @property
    def all_violations(self) -> list[str]:
        return [*self.findings.violations, *self.violations, *self._late()]

    def _late(self) -> Iterator[str]:
        """Where calls were frozen past their heartbeat, some of them must have come too late."""
        frozen = self.notes.get(FROZEN, 0)
        if frozen and not self.findings.late_refused:
            yield f"{frozen} calls were frozen, and no late result was seen to be refused"

    def to_json(self) -> dict[str, Any]:
        findings = asdict(self.findings)
        del findings["violations"]
        return {
            "scenario": self.scenario,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            **findings,
            "questions": dict(self.findings.questions),
            "faults": dict(sorted(self.faults.items())),
            "faults_total": self.faults.total(),
            **self.notes,
            "violations": self.all_violations,
        }


_ROWS = (
    "runs",
    "finished",
    "lost",
    "executions",
    "steps_expected",
    "steps_applied",
    "steps_twice",
    "keyed_expected",
    "keyed_done",
    "keyed_doubled",
    "never_expected",
    "never_done",
    "never_doubled",
    "repeated",
    "late_refused",
    "folds_unequal",
    "faults_total",
    "seconds",
)


def table(reports: Sequence[Report]) -> str:
    """The reports side by side, and below them the faults, the questions and the violations."""
    found = [report.to_json() for report in reports]
    width = max((len(r.scenario) for r in reports), default=0) + 2
    lines = [" " * 16 + "".join(f"{r.scenario:>{max(width, 10)}}" for r in reports)]
    lines += [
        f"{row.replace('_', ' '):<16}" + "".join(f"{f[row]:>{max(width, 10)}}" for f in found)
        for row in _ROWS
    ]
    for report, one in zip(reports, found, strict=True):
        faults = ", ".join(f"{name} {count}" for name, count in one["faults"].items())
        asked = ", ".join(f"{kind} {count}" for kind, count in one["questions"].items())
        notes = ", ".join(f"{name.replace('_', ' ')} {v}" for name, v in report.notes.items())
        lines += ["", f"{report.scenario} (seed {report.seed})", f"  faults: {faults or 'none'}"]
        lines += [f"  questions: {asked or 'none'}"]
        lines += [f"  {notes}"] if notes else []
        lines += [f"  VIOLATION {text}" for text in report.all_violations]
    return "\n".join(lines)


def write(reports: Sequence[Report], path: Path) -> None:
    """Writes the reports as JSON."""
    path.write_text(json.dumps([report.to_json() for report in reports], indent=1) + "\n")
