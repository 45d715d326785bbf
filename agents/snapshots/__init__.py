"""What `agent.posterior()` returns: what was known of the means when it was asked for."""
