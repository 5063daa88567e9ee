"""Notifications: subscriptions, and how messages are sent to their receivers."""
