"""HTTP as such: what holds for every request, whatever it asks for."""
