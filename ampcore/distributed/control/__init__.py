"""The control channel between ranks: greetings, heartbeats, failures."""
