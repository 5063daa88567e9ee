"""Projects, tokens, sessions, idempotency keys and the audit log."""
