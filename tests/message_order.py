"""The order of the messages of a log, independent of the hydrator."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.store.protocol import LogLink


def sort_messages(links: Sequence[LogLink]) -> list[LogLink]:
    """The messages of a whole log, by journal position and then by body.

    A message that two logs shared before they were merged has a link in each; it is returned once.
    """
    messages = {(link.position, link.body): link for link in links if link.other is None}
    return [link for _, link in sorted(messages.items())]
