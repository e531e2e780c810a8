{{/* drover.temporal: the configuration of the connection to Temporal. */}}
{{- define "drover.temporal" -}}
{{- $temporal := dict "address" .Values.temporal.address "namespace" .Values.temporal.namespace }}
{{- with .Values.temporal.codecKeys }}
{{- if .secret }}{{ $_ := set $temporal "codec_keys_file" (printf "/etc/drover-secrets/codec/%s" .key) }}{{ end }}
{{- end }}
{{- dict "temporal" $temporal | toYaml }}
{{- end }}

{{/* drover.temporalSecrets: the volumes for it: names and secrets. */}}
{{- define "drover.temporalSecrets" -}}
{{- $secrets := dict }}
{{- with .Values.temporal.codecKeys.secret }}{{ $_ := set $secrets "codec" . }}{{ end }}
{{- $secrets | toYaml }}
{{- end }}

{{/* drover.stores: Temporal, the records with the keys of their secrets, and the blobs. */}}
{{- define "drover.stores" -}}
{{- $records := dict "driver" "postgres" "dsn_file" (printf "/etc/drover-secrets/records/%s" .Values.records.dsnSecret.key) }}
{{- with .Values.records.keys }}
{{- if .secret }}{{ $_ := set $records "keys_file" (printf "/etc/drover-secrets/records-keys/%s" .key) }}{{ end }}
{{- end }}
{{- mergeOverwrite (include "drover.temporal" . | fromYaml) (dict "records" $records "blobs" (dict "url" .Values.blobs.url)) | toYaml }}
{{- end }}

{{/* drover.storesSecrets: the volumes for them. */}}
{{- define "drover.storesSecrets" -}}
{{- $secrets := include "drover.temporalSecrets" . | fromYaml }}
{{- $_ := set $secrets "records" .Values.records.dsnSecret.name }}
{{- with .Values.records.keys.secret }}{{ $_ := set $secrets "records-keys" . }}{{ end }}
{{- $secrets | toYaml }}
{{- end }}
