"""Temporary."""
