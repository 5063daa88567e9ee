"""Models that nobody here designed, and the checks that each of them passes.

The modules of models import no ampcore, so that a saved model loads without it.
"""
