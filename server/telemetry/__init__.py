"""The steps of a job, in the forms in which they are asked for."""
