{{/* The variables of the provider that people sign in with. */}}
{{- define "ampcore.oidcVariables" -}}
{{- with .Values.api.oidc -}}
- name: AMPCORE_OIDC_ISSUER
  value: {{ .issuer | quote }}
- name: AMPCORE_OIDC_CLIENT_ID
  value: {{ .clientId | quote }}
{{- if .clientSecret.name }}
{{ include "ampcore.secretVariable" (dict "name" "AMPCORE_OIDC_CLIENT_SECRET" "secret" .clientSecret.name "key" .clientSecret.key) }}
{{- end }}
- name: AMPCORE_OIDC_NAME
  value: {{ .name | quote }}
- name: AMPCORE_OIDC_GROUPS
  value: {{ .groups | toJson | quote }}
- name: AMPCORE_OIDC_GROUPS_CLAIM
  value: {{ join "," .groupsClaims | quote }}
- name: AMPCORE_OIDC_EMAIL_DOMAINS
  value: {{ join "," .emailDomains | quote }}
- name: AMPCORE_OIDC_SCOPES
  value: {{ join " " .scopes | quote }}
- name: AMPCORE_OIDC_SESSION_S
  value: {{ int64 .sessionSeconds | quote }}
- name: AMPCORE_OIDC_IDLE_S
  value: {{ int64 .idleSeconds | quote }}
- name: AMPCORE_OIDC_TOKEN_S
  value: {{ int64 .tokenSeconds | quote }}
{{- end }}
{{- end -}}
