"""Other products at their fastest settings: every module is the program of one candidate."""
