"""A workflow before a change, with the change behind a patch, and after the patch is removed.

The workflow notifies two people. `NotifyEach` is the first build: it has an activity for each of
them. The next build notifies all of them with one activity. That is another command, so a history
of the first build does not replay with it. `NotifyPatched` has both branches: it replays histories
of either build, and new executions take the new branch. Once no execution of the first build is
left, `NotifyDeprecated` takes its place for one more release.

All have one workflow type, as the builds of one workflow have.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow

TYPE = "Notify"
PATCH = "notify-all-with-one-activity"
"""The name of the patch: what the new code does."""
PEOPLE = ("ada", "grace")


@activity.defn
async def notify(person: str) -> str:
    """Notifies a person."""
    return f"notified {person}"


@activity.defn
async def notify_all(people: list[str]) -> list[str]:
    """Notifies several people."""
    return [f"notified {person}" for person in people]


LIMIT = timedelta(seconds=10)


async def _each() -> list[str]:
    return [
        await workflow.execute_activity(notify, person, start_to_close_timeout=LIMIT)
        for person in PEOPLE
    ]


async def _all() -> list[str]:
    people = list(PEOPLE)
    return await workflow.execute_activity(notify_all, people, start_to_close_timeout=LIMIT)


@workflow.defn(name=TYPE)
class NotifyEach:
    """The build before the change."""

    @workflow.run
    async def run(self) -> list[str]:
        """Notifies people."""
        return await _each()


@workflow.defn(name=TYPE)
class NotifyPatched:
    """The build with the change, while executions of the build before it may be replayed."""

    @workflow.run
    async def run(self) -> list[str]:
        """Notifies people."""
        if workflow.patched(PATCH):
            return await _all()
        return await _each()


@workflow.defn(name=TYPE)
class NotifyUnpatched:
    """The change without a patch: it breaks executions of the build before it."""

    @workflow.run
    async def run(self) -> list[str]:
        """Notifies people."""
        return await _all()


@workflow.defn(name=TYPE)
class NotifyDeprecated:
    """A later build: no execution of the first one is left to be replayed."""

    @workflow.run
    async def run(self) -> list[str]:
        """Notifies people."""
        workflow.deprecate_patch(PATCH)
        return await _all()
