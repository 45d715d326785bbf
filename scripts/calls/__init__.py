"""Bad calls of everything public: what they are, how they end, and whether that is clear."""
