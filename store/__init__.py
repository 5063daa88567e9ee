"""Tables, queries and state transitions, shared by server and worker.

Functions take a session and never commit; the caller that opened the session does.
"""
