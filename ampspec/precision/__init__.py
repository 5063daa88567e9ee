"""The precision section of a job spec, and the dtypes that follow from it."""
