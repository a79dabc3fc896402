"""Encryption of what Crewlog keeps elsewhere: payloads in histories, and rows of the store.

keys    the key file, and the keys in a process: which one writes, which ones read
codec   the payload codec of workers and clients
failures what of a failure is encrypted
rows    texts in the store's tables
places  which keys stand where: in histories, payload files and rows

One setting turns it on for workers, clients and the command line: `CREWLOG_ENCRYPTION_KEYS`, the
path of a key file that `crewlog encryption init` makes.
"""

from __future__ import annotations
