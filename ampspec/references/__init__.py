"""References to data outside of a spec: datasets, files, objects and plugins."""
