"""Benchmarks: this engine beside a bare workflow, the LangGraph plugin and plain LangGraph.

`make bench` runs all of them on a throwaway tuned server and writes `bench/latest.json`.
docs/performance.md says what is measured, and how to read it.
"""
