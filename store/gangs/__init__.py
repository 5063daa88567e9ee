"""Gangs: the reservation and the life of several ranks."""
