{{/* Rules about several values at once, which the schema cannot say. All problems are reported together. */}}
{{- define "ampcore.validate" -}}
{{- $problems := list -}}
{{- if not .Values.images.server.repository -}}
{{- $problems = append $problems "images.server.repository: name the image that you built with docker/server.Dockerfile." -}}
{{- end -}}
{{- if not .Values.database.existingSecret -}}
{{- $problems = append $problems "database.existingSecret: name the Secret with the URL of PostgreSQL." -}}
{{- end -}}
{{- if not .Values.redis.existingSecret -}}
{{- $problems = append $problems "redis.existingSecret: name the Secret with the URL of Redis." -}}
{{- end -}}
{{- if and .Values.artifacts.url .Values.artifacts.sharedVolume.enabled -}}
{{- $problems = append $problems "artifacts: set either url or sharedVolume.enabled, not both." -}}
{{- else if not (or .Values.artifacts.url .Values.artifacts.sharedVolume.enabled) -}}
{{- $problems = append $problems "artifacts: set url, such as s3://bucket/folder, or sharedVolume.enabled." -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- $problems = append $problems "ingress.host: name the host under which users reach the API." -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.tls.existingSecret) -}}
{{- $problems = append $problems "ingress.tls.existingSecret: name the Secret with the certificate; tokens must not be sent without TLS." -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.api.trustedProxies) -}}
{{- $problems = append $problems "api.trustedProxies: list the networks of the ingress controller's pods; without them the dashboard refuses its sessions." -}}
{{- end -}}
{{- if and .Values.builtIn.postgresql.enabled (eq .Values.migrations.strategy "hook") -}}
{{- $problems = append $problems "migrations.strategy: set initContainer; with hook, the Job would wait for the built-in PostgreSQL, which is created only after it." -}}
{{- end -}}
{{- range $name := list "postgresql" "redis" -}}
{{- $server := index $.Values.builtIn $name -}}
{{- if and $server.enabled (not $server.existingSecret) -}}
{{- $problems = append $problems (printf "builtIn.%s.existingSecret: name the Secret with its password." $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.serviceMonitor.tokenSecret.name) -}}
{{- $problems = append $problems "metrics.serviceMonitor.tokenSecret.name: name the Secret with a token of the role viewer." -}}
{{- end -}}
{{- if .Values.scheduler.enabled -}}
{{- if not .Values.scheduler.queues -}}
{{- $problems = append $problems "scheduler.queues: name the queues whose jobs get pods of their own." -}}
{{- end -}}
{{- if not .Values.images.worker.repository -}}
{{- $problems = append $problems "images.worker.repository: name the image of the pods that the scheduler creates." -}}
{{- end -}}
{{- end -}}
{{- range $name, $values := .Values.workerPools -}}
{{- $pool := include "ampcore.pool" (dict "root" $ "pool" $values) | fromYaml -}}
{{- $where := printf "workerPools.%s" $name -}}
{{- if not $pool.image.repository -}}
{{- $problems = append $problems (printf "images.worker.repository or %s.image.repository: name the image that you built with docker/worker.Dockerfile." $where) -}}
{{- end -}}
{{- $count := int64 (default 0 $pool.gpu.count) -}}
{{- if and $count (ne $count (int64 $pool.slots)) -}}
{{- $problems = append $problems (printf "%s: it has %d slots, but %d GPUs for each worker; jobs would share a GPU's memory, or leave one idle." $where (int64 $pool.slots) $count) -}}
{{- end -}}
{{- $ports := add (sub (int64 $pool.rankPorts.last) (int64 $pool.rankPorts.first)) 1 -}}
{{- if lt $ports (mul 2 (int64 $pool.slots)) -}}
{{- $problems = append $problems (printf "%s.rankPorts: %d slots need at least %d ports, received %d." $where (int64 $pool.slots) (mul 2 (int64 $pool.slots)) $ports) -}}
{{- end -}}
{{- if $pool.autoscaling.enabled -}}
{{- if not $.Values.autoscaling.prometheusUrl -}}
{{- $problems = append $problems (printf "autoscaling.prometheusUrl: %s.autoscaling needs the address of Prometheus." $where) -}}
{{- end -}}
{{- if gt (int64 $pool.autoscaling.minReplicas) (int64 $pool.autoscaling.maxReplicas) -}}
{{- $problems = append $problems (printf "%s.autoscaling: minReplicas %d is more than maxReplicas %d." $where (int64 $pool.autoscaling.minReplicas) (int64 $pool.autoscaling.maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $problems -}}
{{- fail (printf "\n\nThese values must be corrected:\n- %s\n" (join "\n- " $problems)) -}}
{{- end -}}
{{- end -}}
