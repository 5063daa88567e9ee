"""Notifications: subscriptions, the messages written for them, and their deliveries."""
