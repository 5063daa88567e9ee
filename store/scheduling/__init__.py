"""Whose job is next, on which workers: fair shares, queues, and where ranks fit."""
