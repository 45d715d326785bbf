"""The race of Racing Thompson: what it draws from, how it weighs, when it stops."""
