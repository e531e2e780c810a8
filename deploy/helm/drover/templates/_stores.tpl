{{/* drover.temporal: how a process reaches Temporal, as configuration. */}}
{{- define "drover.temporal" -}}
temporal: {address: {{ .Values.temporal.address | quote }}, namespace: {{ .Values.temporal.namespace | quote }}}
{{- end }}

{{/* drover.stores: Temporal, the records and the blobs. */}}
{{- define "drover.stores" -}}
{{ include "drover.temporal" . }}
records: {driver: postgres, dsn_file: {{ printf "/etc/drover-secrets/records/%s" .Values.records.dsnSecret.key | quote }}}
blobs: {url: {{ .Values.blobs.url | quote }}}
{{- end }}
