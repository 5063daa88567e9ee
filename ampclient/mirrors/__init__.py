"""Mirror runs and jobs to other tools: MLflow, and offline files of W&B."""
