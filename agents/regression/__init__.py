"""Posteriors of the coefficients of features: proposals, and beliefs of the means."""
