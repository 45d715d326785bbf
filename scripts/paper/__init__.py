"""The tables and figures of the Racing Thompson paper, one module each."""
