"""Long responses: streams of events and logs, and downloads."""
