"""Posteriors of the coefficients of features: rows of data, proposals, and beliefs of the means."""
