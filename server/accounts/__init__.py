"""Tokens, projects, browser sessions and the audit log."""
