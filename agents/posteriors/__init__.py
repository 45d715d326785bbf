"""How a posterior is held: one file a kind, all with one contract."""
