"""The deterministic reader: plain English to the syntax tree, without a model.

`sentences` takes the text apart, `discovery` and `mentions` find who and what it speaks of,
`segments` cuts sentences into clauses, `frames` says who does what to what in one, whatever the
voice and order. Of these, `rules` and its kin read what holds for the whole run, `conditions` and
`pending` what has to be true, `clauses` and `moves` who works and what moves the run, and `order`
puts it together. Words are data, in classes; structure is code. Whatever no reader understands is
reported; nothing is guessed, and nothing is dropped.
"""

from crewlog.prompt.grammar.reader import Reading, read

__all__ = ["Reading", "read"]
