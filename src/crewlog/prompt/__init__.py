"""Prompts: plain English to a definition that people can read, correct and approve.

    text → clauses → reader (forms | model) → Reading → verify → lower → definition → sound

Two readers make the same `Reading`: the forms, offline and deterministic, and a chat model. One
verifier holds it against the prompt. What is not understood is a fault with its place, never a
guess.
"""
