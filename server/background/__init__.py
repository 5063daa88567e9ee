"""Background work of the server: reconcile, dispatch again, compact, clean up."""
