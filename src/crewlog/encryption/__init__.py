"""Encryption of payloads in histories and of rows in the store.

keys      the key file, and the keys of a process
codec     the payload codec of workers and clients
failures  failures with encrypted messages and stack traces
rows      encrypted texts in the tables of the store
server    a codec server for Temporal's web UI

One setting turns it on for workers, clients and the command line: `CREWLOG_ENCRYPTION_KEYS`, the
path of a key file, which `crewlog encryption init` creates.
"""

from __future__ import annotations
