"""The inner loops of agents: compiled numerics that know neither problem nor posterior."""
