"""Work that a server does beside its requests: reconcile, dispatch again, compact, clean up."""
