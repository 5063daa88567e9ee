"""Download the inputs of a job, and upload its outputs."""
