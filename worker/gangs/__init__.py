"""Jobs with several ranks, on one worker or several."""
