{{/* The settings of the scheduler (docs/guides/clusters.md): what its pods share with the workers of the
release, then the values. */}}
{{- define "ampcore.schedulerSettings" -}}
{{- $environment := dict
    "AMPCORE_DATA_DIR" "/data"
    "AMPCORE_ARTIFACTS_URL" (ternary "file:///data/artifacts" .Values.artifacts.url .Values.artifacts.sharedVolume.enabled)
    "AMPCORE_LEASE_S" (.Values.settings.leaseSeconds | toString)
    "AMPCORE_LOG_FORMAT" .Values.settings.logFormat
-}}
{{- $secrets := dict
    "AMPCORE_DATABASE_URL" (dict "secret" .Values.database.existingSecret "key" .Values.database.key)
    "AMPCORE_REDIS_URL" (dict "secret" .Values.redis.existingSecret "key" .Values.redis.key)
-}}
{{- with .Values.settings.dataPrefixes -}}
{{- $_ := set $environment "AMPCORE_DATA_PREFIXES" (join "," .) -}}
{{- end -}}
{{- with .Values.artifacts.s3 -}}
{{- if .existingSecret -}}
{{- $_ := set $secrets "AWS_ACCESS_KEY_ID" (dict "secret" .existingSecret "key" .accessKeyIdKey) -}}
{{- $_ := set $secrets "AWS_SECRET_ACCESS_KEY" (dict "secret" .existingSecret "key" .secretAccessKeyKey) -}}
{{- end -}}
{{- if .region -}}
{{- $_ := set $environment "AWS_DEFAULT_REGION" .region -}}
{{- end -}}
{{- if .endpointUrl -}}
{{- $_ := set $environment "AWS_ENDPOINT_URL_S3" .endpointUrl -}}
{{- end -}}
{{- end -}}
{{- with .Values.traces -}}
{{- if .endpoint -}}
{{- $_ := set $environment "OTEL_EXPORTER_OTLP_ENDPOINT" .endpoint -}}
{{- if .existingSecret -}}
{{- $_ := set $secrets "OTEL_EXPORTER_OTLP_HEADERS" (dict "secret" .existingSecret "key" .headersKey) -}}
{{- end -}}
{{- if .sampler -}}
{{- $_ := set $environment "OTEL_TRACES_SAMPLER" .sampler -}}
{{- end -}}
{{- if .samplerArgument -}}
{{- $_ := set $environment "OTEL_TRACES_SAMPLER_ARG" .samplerArgument -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $pullSecrets := list -}}
{{- range .Values.imagePullSecrets -}}
{{- $pullSecrets = append $pullSecrets .name -}}
{{- end -}}
{{- $defaults := dict
    "image" (include "ampcore.image" (dict "image" .Values.images.worker "default" .Chart.AppVersion))
    "image_pull_policy" .Values.images.worker.pullPolicy
    "image_pull_secrets" $pullSecrets
    "service_account" (include "ampcore.serviceAccountName" .)
    "drain_s" (int64 .Values.settings.drainTimeoutSeconds)
    "environment" $environment
    "secret_environment" $secrets
    "pod_labels" (dict "app.kubernetes.io/name" (include "ampcore.name" .) "app.kubernetes.io/instance" .Release.Name)
-}}
{{- if .Values.artifacts.sharedVolume.enabled -}}
{{- $claim := default (printf "%s-data" (include "ampcore.fullname" .)) .Values.artifacts.sharedVolume.existingClaim -}}
{{- $_ := set $defaults "volumes" (list (dict "name" "data" "mount_path" "/data" "claim" $claim)) -}}
{{- end -}}
{{- $settings := dict
    "namespace" .Release.Namespace
    "poll_s" .Values.scheduler.pollSeconds
    "keep_ended_s" (int64 .Values.scheduler.keepEndedSeconds)
    "defaults" $defaults
    "queues" .Values.scheduler.queues
-}}
{{- toYaml $settings -}}
{{- end -}}
