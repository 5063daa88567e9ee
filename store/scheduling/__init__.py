"""The next job and its workers: fair shares, queues, and placement of ranks."""
