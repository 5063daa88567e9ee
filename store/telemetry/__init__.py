"""Steps, events and logs of jobs: written, compacted and read."""
