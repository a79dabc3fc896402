"""Servers of tools by the Model Context Protocol: sessions with them, and what they say."""
