"""Runs that train elsewhere and report here."""
