"""`ampserver up`: a private Redis, the API and a worker on one machine, kept running and ended."""
