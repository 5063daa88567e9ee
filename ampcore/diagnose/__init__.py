"""What can be found out about a machine, a model and a run; one module for each question."""
