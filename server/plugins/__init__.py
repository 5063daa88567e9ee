"""Check what specs name of installed packages against what workers announce."""
