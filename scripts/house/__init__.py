"""What the page on the architecture shows: rooms, arrows, and the files that a call passes."""
