"""HTTP concerns of every request: bodies, parameters, ETags, ranges, limits, ids, errors."""
