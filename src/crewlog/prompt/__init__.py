"""Prompts: plain English to a definition that people can read, correct and approve.

`prompt → AST → definition`: a reader (the grammar, or a model) makes the AST of what was said, and
`assemble` makes the definition of it. What nobody understood is said, and never guessed.
"""
