"""The studies behind the pages: settings in NAME.toml, what is measured and reported in NAME.py."""
