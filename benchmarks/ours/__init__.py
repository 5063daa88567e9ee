"""The candidates of ampcore: the training loop as a job runs it."""
