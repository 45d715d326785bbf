"""What every study shares: its command, its simulations, its figures and the page it writes."""
