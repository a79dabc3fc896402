"""From a definition to LangGraph.

A builder's `StateGraph` becomes phases, a definition becomes a plan, and a plan a `StateGraph`.
"""
