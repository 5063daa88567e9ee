{{/* Names, labels and parts of pods that several templates share. */}}

{{- define "ampcore.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of all objects' names. 40 characters leave room for "-worker-" and a pool's name. */}}
{{- define "ampcore.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "ampcore.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "ampcore.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ampcore.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ampcore.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels that never change: selectors are immutable. Arguments: root, component, pool (optional). */}}
{{- define "ampcore.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ampcore.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
ampcore/pool: {{ . }}
{{- end }}
{{- end -}}

{{/* Labels of pods: none that changes with the chart alone, which would restart them.
Arguments: those of selectorLabels, and extra, labels that win over the common ones (optional). */}}
{{- define "ampcore.podLabels" -}}
{{ include "ampcore.selectorLabels" . }}
app.kubernetes.io/part-of: ampcore
{{- with merge (dict) (default dict .extra) .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "ampcore.labels" -}}
{{ include "ampcore.podLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The reference of an image. Arguments: image, default (the default tag). */}}
{{- define "ampcore.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .default .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Every pod: no token for the Kubernetes API (but the scheduler's), no variables of Services, and an unprivileged user.
A Service named ampcore would else set AMPCORE_PORT=tcp://…, which the server reads as its port.
Arguments: root, user, group, token (true for the scheduler alone; optional). */}}
{{- define "ampcore.podSecurity" -}}
automountServiceAccountToken: {{ default false .token }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .user }}
  runAsGroup: {{ .group }}
  fsGroup: {{ .group }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Every container. */}}
{{- define "ampcore.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Where pods run. The argument is the part of the values with these keys. */}}
{{- define "ampcore.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* A variable from a Secret. Arguments: name, secret, key. */}}
{{- define "ampcore.secretVariable" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end -}}

{{- define "ampcore.databaseVariable" -}}
{{ include "ampcore.secretVariable" (dict "name" "AMPCORE_DATABASE_URL" "secret" .Values.database.existingSecret "key" .Values.database.key) }}
{{- end -}}

{{/* The variables that servers and workers share and that must be equal in both. */}}
{{- define "ampcore.sharedVariables" -}}
{{ include "ampcore.databaseVariable" . }}
{{ include "ampcore.secretVariable" (dict "name" "AMPCORE_REDIS_URL" "secret" .Values.redis.existingSecret "key" .Values.redis.key) }}
- name: AMPCORE_DATA_DIR
  value: /data
- name: AMPCORE_ARTIFACTS_URL
  value: {{ ternary "file:///data/artifacts" .Values.artifacts.url .Values.artifacts.sharedVolume.enabled | quote }}
{{- with .Values.settings.dataPrefixes }}
- name: AMPCORE_DATA_PREFIXES
  value: {{ join "," . | quote }}
{{- end }}
- name: AMPCORE_LEASE_S
  value: {{ .Values.settings.leaseSeconds | quote }}
- name: AMPCORE_DRAIN_TIMEOUT_S
  value: {{ int64 .Values.settings.drainTimeoutSeconds | quote }}
- name: AMPCORE_LOG_FORMAT
  value: {{ .Values.settings.logFormat }}
{{- with .Values.traces }}
{{- if .endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .endpoint | quote }}
{{- if .existingSecret }}
{{ include "ampcore.secretVariable" (dict "name" "OTEL_EXPORTER_OTLP_HEADERS" "secret" .existingSecret "key" .headersKey) }}
{{- end }}
{{- if .sampler }}
- name: OTEL_TRACES_SAMPLER
  value: {{ .sampler | quote }}
{{- end }}
{{- if .samplerArgument }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ .samplerArgument | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.artifacts.s3 }}
{{- if .existingSecret }}
{{ include "ampcore.secretVariable" (dict "name" "AWS_ACCESS_KEY_ID" "secret" .existingSecret "key" .accessKeyIdKey) }}
{{ include "ampcore.secretVariable" (dict "name" "AWS_SECRET_ACCESS_KEY" "secret" .existingSecret "key" .secretAccessKeyKey) }}
{{- end }}
{{- with .region }}
- name: AWS_DEFAULT_REGION
  value: {{ . | quote }}
{{- end }}
{{- with .endpointUrl }}
- name: AWS_ENDPOINT_URL_S3
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The volume at /data. Arguments: root, sizeLimit (of the node's disk, without a shared volume). */}}
{{- define "ampcore.dataVolume" -}}
- name: data
  {{- if .root.Values.artifacts.sharedVolume.enabled }}
  persistentVolumeClaim:
    claimName: {{ default (printf "%s-data" (include "ampcore.fullname" .root)) .root.Values.artifacts.sharedVolume.existingClaim }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .sizeLimit }}
  {{- end }}
{{- end -}}

{{/* The container of `ampserver migrate`, of the Job and of the API's pods. */}}
{{- define "ampcore.migrateContainer" -}}
- name: migrate
  image: {{ include "ampcore.image" (dict "image" .Values.images.server "default" .Chart.AppVersion) }}
  imagePullPolicy: {{ .Values.images.server.pullPolicy }}
  command: [ampserver, migrate, --wait, {{ .Values.migrations.waitSeconds | quote }}]
  env:
    {{- include "ampcore.databaseVariable" . | nindent 4 }}
  securityContext:
    {{- include "ampcore.containerSecurity" . | nindent 4 }}
  resources:
    {{- toYaml .Values.migrations.resources | nindent 4 }}
  volumeMounts:
    - name: tmp
      mountPath: /tmp
{{- end -}}

{{/* A pool with its defaults, as YAML. A key of the pool replaces the whole default, also with 0 or
false, which mergeOverwrite would ignore. Arguments: root, pool (its values). */}}
{{- define "ampcore.pool" -}}
{{- $pool := deepCopy .root.Values.workers -}}
{{- range $key, $value := .pool -}}
{{- $_ := set $pool $key $value -}}
{{- end -}}
{{- $image := deepCopy .root.Values.images.worker -}}
{{- range $key, $value := $pool.image -}}
{{- $_ := set $image $key $value -}}
{{- end -}}
{{- $_ := set $pool "image" $image -}}
{{- toYaml $pool -}}
{{- end -}}

{{/* Matchers of this release's series, for PromQL. */}}
{{- define "ampcore.seriesMatchers" -}}
{{- $default := dict "namespace" .Release.Namespace "service" (printf "%s-api" (include "ampcore.fullname" .)) -}}
{{- $matchers := list -}}
{{- range $label, $value := default $default .Values.metrics.matchLabels -}}
{{- $matchers = append $matchers (printf "%s=%q" $label $value) -}}
{{- end -}}
{{- join "," $matchers -}}
{{- end -}}
