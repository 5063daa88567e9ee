"""Authentication: credentials, tokens and sessions, roles, rate limits."""
