"""A Redis transport for kombu that frees the prefetch slot of a message whose ack fails.

Celery prefetches a limited number of messages. When Redis is unreachable while a message is
acknowledged, kombu never frees its prefetch slot, and a worker with one slot receives no more.
"""

from kombu.transport import TRANSPORT_ALIASES, redis, virtual


class UnacknowledgedMessages(redis.QoS):
    """kombu's bookkeeping of unacknowledged messages, corrected for failed acks."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message, and free its prefetch slot even when Redis cannot be reached."""
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except BaseException:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]
            raise


class Channel(redis.Channel):
    """A channel that uses UnacknowledgedMessages."""

    QoS = UnacknowledgedMessages


class RedisTransport(redis.Transport):
    """A Redis transport whose channels free the prefetch slot of a failed ack."""

    Channel = Channel


def install_transport() -> None:
    """Make kombu use this transport for every `redis://` and `rediss://` URL of this process."""
    # Not with Celery's setting `broker_transport`: the log would show its name, not the address.
    TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), f"{__name__}:RedisTransport"))
