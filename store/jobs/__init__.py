"""Jobs: their states, queue, leases and attempts."""
