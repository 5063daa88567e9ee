"""`ampserver up`: SQLite, a private Redis, the API and one worker on one machine."""
