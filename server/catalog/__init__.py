"""The catalogue: every kind of each part of a spec with its JSON schema."""
