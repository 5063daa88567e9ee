"""The tables and the rules on them, shared by server and worker: the truth about every job.

Functions take a session and never commit; the edge that opened the session does.
"""
