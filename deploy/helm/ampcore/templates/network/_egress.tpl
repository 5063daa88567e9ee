{{/* What servers, workers and the migration connect to. */}}
{{- define "ampcore.egressRules" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- if .Values.builtIn.postgresql.enabled }}
- to:
    - podSelector:
        matchLabels:
          {{- include "ampcore.selectorLabels" (dict "root" . "component" "postgresql") | nindent 10 }}
  ports:
    - {port: 5432, protocol: TCP}
{{- end }}
{{- if .Values.builtIn.redis.enabled }}
- to:
    - podSelector:
        matchLabels:
          {{- include "ampcore.selectorLabels" (dict "root" . "component" "redis") | nindent 10 }}
  ports:
    - {port: 6379, protocol: TCP}
{{- end }}
{{- with .Values.networkPolicy.egress.extra }}
{{ toYaml . }}
{{- end }}
{{- end -}}
