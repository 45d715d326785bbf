"""What every agent is: the act/observe contract, and data that add up or fade."""

from agents.base.agent import Agent as Agent
