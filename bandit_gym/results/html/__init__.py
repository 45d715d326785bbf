"""A report in one HTML file, which opens from disk and asks no network for anything."""
