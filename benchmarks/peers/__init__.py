"""What others offer, each at its best: every module is one contestant's program."""
