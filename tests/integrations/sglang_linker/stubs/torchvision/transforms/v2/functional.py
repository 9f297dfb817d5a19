"""Imported by name only."""
