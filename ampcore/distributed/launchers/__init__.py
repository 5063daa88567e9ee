"""Programs that were started as several ranks by somebody else's launcher: mpiexec, srun, torchrun.

It needs no TensorFlow.
"""
