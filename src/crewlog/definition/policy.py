"""Who may command a crew's runs: the principals of a crew, their keys and their rights.

    policy:
      mode: signed
      principals:
        ada: {key: "ed25519:…", rights: [answer, operate, change, grant]}
        oncall: {key: "ed25519:…", rights: [operate]}

It is data; `crewlog.authority.principals` says what it means for a command.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from crewlog.model import Model

KEY_PREFIX = "ed25519:"
"""What a public key begins with: the only kind that there is."""
_KEY_BYTES = 32
_PRIME = 2**255 - 19
_EIGHTH = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL = frozenset({0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH})
"""The y of the points of small order. Signatures that anybody can make verify with such a key."""

PrincipalName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.@+-]{0,63}$")]
"""A person or a program that commands: a name, or an address such as `ada@example.com`."""

Right = Literal["view", "answer", "operate", "change", "grant"]
"""`view`: wait for results; `answer`: answer questions; `operate`: start, pause, resume, stop,
say something, go back, edit the state; `change`: change the crew; `grant`: say who may do what."""


def public_key_bytes(key: str) -> bytes:
    """The 32 bytes of a public key that is written as `ed25519:BASE64`.

    Raises:
        ValueError: it is none.
    """
    try:
        if not key.startswith(KEY_PREFIX):
            raise ValueError
        found = base64.b64decode(key.removeprefix(KEY_PREFIX), validate=True)
    except (ValueError, binascii.Error) as error:
        raise ValueError("a key is 'ed25519:' and 32 bytes in base64: `crewlog keys`") from error
    # One spelling for each key: two principals must not have one key without its being seen.
    y = int.from_bytes(found, "little") & (2**255 - 1)
    if len(found) == _KEY_BYTES and (y >= _PRIME or y in _SMALL):
        raise ValueError("it is no key that anybody has: `crewlog keys make` makes one")
    if len(found) != _KEY_BYTES or key != KEY_PREFIX + base64.b64encode(found).decode():
        raise ValueError("a key is 'ed25519:' and 32 bytes in base64: `crewlog keys`")
    return found


def _is_key(key: str) -> str:
    public_key_bytes(key)
    return key


PublicKey = Annotated[
    str,
    AfterValidator(_is_key),
    WithJsonSchema({"type": "string", "pattern": r"^ed25519:[A-Za-z0-9+/]{43}=$"}),
]
"""An Ed25519 public key: `ed25519:` and its 32 bytes in base64."""


class Principal(Model):
    """Somebody who may command."""

    key: PublicKey
    """The public key whose signatures are this principal's."""
    rights: tuple[Right, ...] = ("view",)
    """What this principal may do."""


class Policy(Model):
    """Who may command the runs of a crew."""

    mode: Literal["open", "signed"] = "open"
    """`open`: whoever reaches the server commands, under the name that the client says; `signed`:
    only who signs with the key of a principal that has the right."""
    principals: dict[PrincipalName, Principal] = Field(default_factory=dict)
    """The principals by name."""

    @property
    def signed(self) -> bool:
        """Whether commands must be signed."""
        return self.mode == "signed"

    @model_validator(mode="after")
    def _each_key_once(self) -> Self:
        owner: dict[str, str] = {}
        for name, principal in self.principals.items():
            first = owner.setdefault(principal.key, name)
            if first != name:
                raise ValueError(f"the principals {first!r} and {name!r} have the same key")
        return self

    @model_validator(mode="after")
    def _somebody_grants(self) -> Self:
        if self.signed and not any("grant" in each.rights for each in self.principals.values()):
            raise ValueError(
                "no principal has the right 'grant': nobody could change this policy again"
            )
        return self
