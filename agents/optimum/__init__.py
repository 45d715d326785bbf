"""The best possible with Bernoulli arms: recursion, policy, exact regret of rules, and brackets."""
