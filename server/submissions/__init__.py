"""New jobs: from a spec, from another job, several at once; checked and queued in batches."""
