"""The programs that run in the child processes: the fork server and the trainer."""
