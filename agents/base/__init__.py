"""What every agent is: the act/observe contract, data that add up or fade, and its file."""

from agents.base.agent import Agent as Agent
