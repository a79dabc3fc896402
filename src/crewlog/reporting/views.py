"""The view models that commands print with `--json`, by name: each has a published schema."""

from __future__ import annotations

from collections.abc import Mapping

from crewlog.model import Model
from crewlog.reporting.audit.view import AuditRecordView
from crewlog.reporting.diff.view import (
    ArtifactDiffView,
    CheckpointListView,
    DefinitionDiffView,
    DiffView,
)
from crewlog.reporting.drawing.view import GraphDrawingView
from crewlog.reporting.dry_run.view import DryRunView
from crewlog.reporting.events.view import EventView
from crewlog.reporting.explanation import ExplanationView
from crewlog.reporting.inbox import InboxInterruptView
from crewlog.reporting.permission_matrix.view import (
    PermissionExplanationView,
    PermissionMatrixView,
)
from crewlog.reporting.report.view import ReportView
from crewlog.reporting.trace.view import TraceDiffView, TraceView

_VIEWS: tuple[type[Model], ...] = (
    ArtifactDiffView,
    AuditRecordView,
    CheckpointListView,
    DefinitionDiffView,
    DiffView,
    DryRunView,
    EventView,
    ExplanationView,
    GraphDrawingView,
    InboxInterruptView,
    PermissionExplanationView,
    PermissionMatrixView,
    ReportView,
    TraceDiffView,
    TraceView,
)
VIEWS: Mapping[str, type[Model]] = {view.__name__: view for view in _VIEWS}
