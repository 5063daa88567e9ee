"""What each builder of `ampcore.models` makes, layer by layer; one module for each family."""
