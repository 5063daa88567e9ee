"""The commands for logins, tokens, projects and the audit log."""
