"""The deterministic reader: plain English to the syntax tree, without a model.

`sentences` takes the text apart, `nouns` and `mentions` find who and what it speaks of, `segments`
cuts sentences into clauses, and the rest reads these by tables of patterns: `rules` and `people`
what holds for the whole run, `order` and `clauses` what happens when. Whatever no pattern reads is
reported; nothing is guessed, and nothing is dropped.
"""

from crewlog.prompt.grammar.reader import Reading, read

__all__ = ["Reading", "read"]
