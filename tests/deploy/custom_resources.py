"""Schemas of custom resources of chart and scheduler, written down from their documentation.

The Prometheus operator's API reference (monitoring.coreos.com/v1), KEDA's ScaledObject
specification with its Prometheus trigger, and the API reference of JobSet. Only the fields that we
may set are here: all others are refused, so that a misspelt field fails.
"""

from typing import Any, Final

from jsonschema import Draft202012Validator

STRING: Final = {"type": "string", "minLength": 1}
STRINGS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
DURATION: Final = {"type": "string", "pattern": r"^([0-9]+(ms|s|m|h|d|w|y))+$"}
COUNT: Final = {"type": "integer", "minimum": 0}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "properties": required | optional,
        "required": [*required],
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": items}


def _resource(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = _object({"name": STRING}, labels=STRINGS, annotations=STRINGS, namespace=STRING)
    return _object(
        {
            "apiVersion": {"const": api_version},
            "kind": {"const": kind},
            "metadata": metadata,
            "spec": spec,
        }
    )


SERVICE_MONITOR: Final = _resource(
    "monitoring.coreos.com/v1",
    "ServiceMonitor",
    _object(
        {
            "selector": _object({}, matchLabels=STRINGS, matchExpressions={"type": "array"}),
            "endpoints": _list(
                _object(
                    {"port": STRING},
                    path=STRING,
                    scheme={"enum": ["http", "https"]},
                    interval=DURATION,
                    scrapeTimeout=DURATION,
                    authorization=_object(
                        {"credentials": _object({"name": STRING, "key": STRING})}, type=STRING
                    ),
                )
            ),
        },
        namespaceSelector=_object({}, any={"type": "boolean"}, matchNames=_list(STRING)),
        jobLabel=STRING,
        targetLabels=_list(STRING),
        podTargetLabels=_list(STRING),
    ),
)

PROMETHEUS_RULE: Final = _resource(
    "monitoring.coreos.com/v1",
    "PrometheusRule",
    _object(
        {
            "groups": _list(
                _object(
                    {
                        "name": STRING,
                        "rules": _list(
                            {
                                **_object(
                                    {"expr": STRING},
                                    alert=STRING,
                                    record=STRING,
                                    labels=STRINGS,
                                    annotations=STRINGS,
                                    **{"for": DURATION, "keep_firing_for": DURATION},
                                ),
                                "oneOf": [{"required": ["alert"]}, {"required": ["record"]}],
                            }
                        ),
                    },
                    interval=DURATION,
                )
            )
        }
    ),
)

_POLICIES: Final = _list(
    _object(
        {
            "type": {"enum": ["Pods", "Percent"]},
            "value": {"type": "integer", "minimum": 1},
            "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800},
        }
    )
)
_SCALING_RULES: Final = _object(
    {},
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
    selectPolicy={"enum": ["Max", "Min", "Disabled"]},
    policies=_POLICIES,
)
# KEDA reads each of them as text.
_PROMETHEUS_TRIGGER: Final = _object(
    {
        "serverAddress": STRING,
        "query": STRING,
        "threshold": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
    },
    activationThreshold=STRING,
    namespace=STRING,
    customHeaders=STRING,
    queryParameters=STRING,
    ignoreNullValues={"enum": ["true", "false"]},
    unsafeSsl={"enum": ["true", "false"]},
    authModes=STRING,
    timeout=STRING,
)
SCALED_OBJECT: Final = _resource(
    "keda.sh/v1alpha1",
    "ScaledObject",
    _object(
        {
            "scaleTargetRef": _object(
                {"name": STRING}, apiVersion=STRING, kind=STRING, envSourceContainerName=STRING
            ),
            "triggers": _list(
                _object(
                    {"type": {"const": "prometheus"}, "metadata": _PROMETHEUS_TRIGGER},
                    name=STRING,
                    useCachedMetrics={"type": "boolean"},
                    metricType={"enum": ["AverageValue", "Value"]},
                    authenticationRef=_object(
                        {"name": STRING},
                        kind={"enum": ["TriggerAuthentication", "ClusterTriggerAuthentication"]},
                    ),
                )
            ),
        },
        pollingInterval=COUNT,
        cooldownPeriod=COUNT,
        initialCooldownPeriod=COUNT,
        idleReplicaCount={"const": 0},
        minReplicaCount=COUNT,
        maxReplicaCount=COUNT,
        fallback=_object({"failureThreshold": COUNT, "replicas": COUNT}),
        advanced=_object(
            {},
            restoreToOriginalReplicaCount={"type": "boolean"},
            horizontalPodAutoscalerConfig=_object(
                {},
                name=STRING,
                behavior=_object({}, scaleUp=_SCALING_RULES, scaleDown=_SCALING_RULES),
            ),
        ),
    ),
)

SCHEMAS: Final = {
    "ServiceMonitor": SERVICE_MONITOR,
    "PrometheusRule": PROMETHEUS_RULE,
    "ScaledObject": SCALED_OBJECT,
}

# The specs of the Jobs are checked with the schemas of Kubernetes.
_REPLICATED_JOB: Final = _object(
    {
        "name": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"},
        "template": _object({"spec": {"type": "object"}}, metadata={"type": "object"}),
    },
    replicas=COUNT,
)
JOB_SET: Final = _resource(
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    _object(
        {"replicatedJobs": _list(_REPLICATED_JOB)},
        suspend={"type": "boolean"},
        ttlSecondsAfterFinished=COUNT,
        failurePolicy=_object({}, maxRestarts=COUNT),
        network=_object(
            {},
            enableDNSHostnames={"type": "boolean"},
            subdomain=STRING,
            publishNotReadyAddresses={"type": "boolean"},
        ),
    ),
)
JOB_SET_REQUEST: Final = Draft202012Validator(JOB_SET)
