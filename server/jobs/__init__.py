"""What people do with jobs, between the routes and the store."""
