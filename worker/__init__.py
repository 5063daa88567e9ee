"""The worker: takes jobs from the queue, supervises one trainer process for each, keeps its steps.

This process never imports TensorFlow.
"""
