"""How near agents come to exact Thompson sampling: hard cases, their truth, and a verdict on each.

The truth of a case is found by a quadrature that is told where the mass lies, and shares no code
with agents or their oracle. Agents are reached by name, through the catalogue.
"""
