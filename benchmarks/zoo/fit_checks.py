"""The checks of a model whose `train_step` is its own: Keras's `fit` with ampcore's parts."""

class FitChecks:
    """Later."""
