"""Redis as a worker hears it: a message that cannot be acknowledged takes up no place.

Celery reads as many messages ahead as it has places. Where Redis is gone in the moment of an
acknowledgement, kombu keeps the place taken for ever, and a worker with one slot hears no more.
"""

from kombu.transport import TRANSPORT_ALIASES, redis, virtual


class Places(redis.QoS):
    """The messages that are not acknowledged yet."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge one; its place is free whether Redis hears of it or not."""
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except BaseException:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]
            raise


class Channel(redis.Channel):
    """One that counts so."""

    QoS = Places


class Transport(redis.Transport):
    """The way to Redis."""

    Channel = Channel


def keep_places() -> None:
    """Let this process reach every Redis so."""
    # Not by Celery's setting `broker_transport`: its name would stand in the log for the address.
    TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), f"{__name__}:Transport"))
