"""The worker: claims queued jobs, supervises one trainer process per job, stores its telemetry.

This process never imports TensorFlow.
"""
