"""Breaking lines at random and seeing whether a test notices; the command is `mutants.py`."""
