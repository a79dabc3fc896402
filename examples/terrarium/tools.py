"""What lies in the terrarium."""

from __future__ import annotations

_BURIED = {
    "north": "roots",
    "east": "nothing but sand",
    "west": "a gold coin, 12 cm down",
}


def dig(site: str) -> str:
    """Digs at a site, and tells what is there.

    Args:
        site: north, east or west.
    """
    found = _BURIED.get(site.strip().lower())
    if found is None:
        raise ValueError(f"there is no site {site!r}: there are {', '.join(_BURIED)}")
    return found
