"""Settings of queues for the tests of Kubernetes."""

from server.allocations.kubernetes_settings import KubernetesSettings
from tests.kubernetes_api import NAMESPACE

IMAGE = "registry.example/ampcore-worker:0.6.0"
QUEUES = {
    "cpu": {},
    "gpu": {
        "cpus_per_device": 8,
        "memory_per_device": "1.5Gi",
        "node_selector": {"nvidia.com/gpu.present": "true"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "priority_class": "training",
        "runtime_class": "nvidia",
        "service_account": "trainers",
        "image_pull_secrets": ["my-registry"],
        "environment": {"AMPCORE_LOG_FORMAT": "json"},
        "secret_environment": {"AMPCORE_DATABASE_URL": {"secret": "ampcore", "key": "database"}},
        "environment_from_secrets": ["ampcore-s3"],
        "volumes": [
            {"name": "files", "mount_path": "/data", "claim": "nfs"},
            {"name": "shm", "mount_path": "/dev/shm", "memory": "8Gi"},
            {"name": "certificates", "mount_path": "/etc/certs", "config_map": "certificates"},
            {"name": "keys", "mount_path": "/etc/keys", "secret": "keys", "read_only": True},
            {"name": "cache", "mount_path": "/cache", "disk": "5Gi"},
        ],
    },
    "fair": {"local_queue": "team-a"},
    "code": {"custom_code": True},
}


def settings_with(**values):
    """The settings with these queues, and other values."""
    document = {"namespace": NAMESPACE, "defaults": {"image": IMAGE}, "queues": QUEUES, **values}
    return KubernetesSettings.model_validate(document).with_defaults()
