"""What is trained: a spec, a Keras model, or custom code."""
