"""Drawings of a graph: Mermaid for web pages, box characters for terminals."""
