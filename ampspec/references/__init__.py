"""References to what a spec does not hold: datasets, files, objects and plugins."""
