"""The HTTP edge of ampcore: it translates between requests and the rules of the store."""
