"""Rules that turn what is known of the means into an arm: one file a family."""
