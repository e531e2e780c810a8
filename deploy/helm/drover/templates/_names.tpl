{{/* Names and labels. */}}

{{- define "drover.name" -}}
{{- ternary .Release.Name (printf "%s-drover" .Release.Name) (contains "drover" .Release.Name) | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* drover.selector: the selector labels of a component, given as (list $ component). */}}
{{- define "drover.selector" -}}
app.kubernetes.io/name: drover
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "drover.labels" -}}
{{ include "drover.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end }}

{{- define "drover.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* drover.hosts: the names of the gateway, as JSON. */}}
{{- define "drover.hosts" -}}
{{- $name := printf "%s-gateway" (include "drover.name" .) }}
{{- $namespace := .Release.Namespace }}
{{- $hosts := list $name (printf "%s.%s" $name $namespace) (printf "%s.%s.svc" $name $namespace) (printf "%s.%s.svc.%s" $name $namespace .Values.clusterDomain) }}
{{- with .Values.gateway.ingress.host }}{{ $hosts = append $hosts . }}{{ end }}
{{- concat $hosts .Values.gateway.hosts | uniq | toJson }}
{{- end }}

{{- define "drover.gatewayURL" -}}
{{ ternary "https" "http" (not (empty .Values.gateway.tls.secret)) }}://{{ include "drover.name" . }}-gateway.{{ .Release.Namespace }}.svc:{{ .Values.gateway.service.port }}
{{- end }}

{{/* drover.executorName: the name of an executor entry, given as (list $ name). */}}
{{- define "drover.executorName" -}}
{{ include "drover.name" (index . 0) }}-executor-{{ index . 1 }}
{{- end }}
