"""Models that nobody here designed, and the checks that each of them passes.

The modules of models import Keras and TensorFlow alone, so that a saved model loads without ampcore.
"""
