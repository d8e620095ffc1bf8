"""Rollouts of a small control task: records, a policy, a data set in memory maps, training."""
