"""How the features of arms arise: drawn, of one's visitors, or from a table.

`disjoint` and `hierarchical` turn a visitor's vector into the features of each arm.
"""

from bandit_gym.contexts.blocks import disjoint, hierarchical
