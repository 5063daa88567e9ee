"""Jobs: submission, reading, listing and actions, between the routes and the store."""
