"""A run as it goes: what an agent knows, what it pulls and what that costs, for people to watch.

A `Frame` is what there is to see at one time, as data; `terminal` and `picture` draw it.
"""
