{{/*
drover.config: the configuration of a process, merged from the chart's settings, the
process's own settings and the settings of all processes: (list $ computed own).
The first one wins.
*/}}
{{- define "drover.config" -}}
{{- $all := deepCopy ((index . 0).Values.config | default dict) }}
{{- mergeOverwrite $all (deepCopy (index . 2 | default dict)) (index . 1) | toYaml }}
{{- end }}

{{/* drover.configMap: (list $ component computed own). */}}
{{- define "drover.configMap" -}}
{{- $root := index . 0 }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "drover.name" $root }}-{{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "drover.labels" (list $root (index . 1)) | nindent 4 }}
data:
  drover.yaml: |
    {{- include "drover.config" (list $root (index . 2) (index . 3)) | nindent 4 }}
{{- end }}

{{/*
drover.pod: the pod template of a process, from a dict:
  root, component, values (of the component), command, computed (configuration),
  port ({name, number, scheme}), environment, secretEnvironment (names of secrets),
  secrets (name of a volume: secret), blobs (bool), state (a directory of the pod), account,
  token (bool: may call the API server).
*/}}
{{- define "drover.pod" -}}
{{- range $key := list "metrics" "environment" "secretEnvironment" "secrets" "scheme" "grace" "token" "blobs" "state" }}
{{- if not (hasKey $ $key) }}{{ $_ := set $ $key nil }}{{ end }}
{{- end }}
{{- $root := .root }}
{{- $v := .values }}
metadata:
  labels: {{- include "drover.labels" (list $root .component) | nindent 4 }}
  annotations:
    # A changed configuration creates new pods.
    drover.run/config: {{ include "drover.config" (list $root .computed $v.config) | sha256sum }}
    {{- with $v.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ .account }}
  automountServiceAccountToken: {{ .token | default false }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace | default 30 }}
  securityContext:
    {{- toYaml $root.Values.podSecurityContext | nindent 4 }}
    seccompProfile: {type: RuntimeDefault}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $v.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "drover.selector" (list $root .component) | nindent 10 }}
  containers:
    - name: {{ .command }}
      image: {{ include "drover.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [start, {{ .command }}, --config, /etc/drover/drover.yaml]
      {{- if or .environment $v.extraEnv $root.Values.authorities.secret }}
      env:
        {{- with .environment }}{{ toYaml . | nindent 8 }}{{ end }}
        {{- if $root.Values.authorities.secret }}
        # In addition to the file of the image.
        - {name: SSL_CERT_DIR, value: /etc/drover-secrets/authorities}
        {{- end }}
        {{- with $v.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- end }}
      {{- with compact (.secretEnvironment | default list) }}
      envFrom:
        {{- range . }}
        - secretRef: {name: {{ . }}}
        {{- end }}
      {{- end }}
      ports:
        - {name: {{ .port.name }}, containerPort: {{ .port.number }}}
        {{- with .metrics }}
        - {name: metrics, containerPort: {{ . }}}
        {{- end }}
      {{- $probed := .metrics | default .port.number }}
      livenessProbe:
        httpGet: {path: /healthz, port: {{ $probed }}, scheme: {{ .scheme | default "HTTP" }}}
        periodSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: {{ $probed }}, scheme: {{ .scheme | default "HTTP" }}}
        periodSeconds: 5
      startupProbe:
        httpGet: {path: /healthz, port: {{ $probed }}, scheme: {{ .scheme | default "HTTP" }}}
        periodSeconds: 2
        failureThreshold: 60
      {{- with $v.resources }}
      resources: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: config, mountPath: /etc/drover, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- with .state }}
        - {name: state, mountPath: {{ . }}}
        {{- end }}
        {{- range $name, $_ := .secrets }}
        - {name: {{ $name }}, mountPath: /etc/drover-secrets/{{ $name }}, readOnly: true}
        {{- end }}
        {{- if $root.Values.authorities.secret }}
        - {name: authorities, mountPath: /etc/drover-secrets/authorities, readOnly: true}
        {{- end }}
        {{- if and .blobs $root.Values.blobs.volume.enabled }}
        - {name: blobs, mountPath: {{ trimPrefix "file://" $root.Values.blobs.url }}}
        {{- end }}
        {{- with $v.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - name: config
      configMap: {name: {{ include "drover.name" $root }}-{{ .component }}}
    - name: tmp
      emptyDir: {}
    {{- if .state }}
    - name: state
      emptyDir: {}
    {{- end }}
    {{- range $name, $secret := .secrets }}
    - name: {{ $name }}
      secret: {secretName: {{ $secret }}, defaultMode: 0440}
    {{- end }}
    {{- with $root.Values.authorities.secret }}
    - name: authorities
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- if and .blobs $root.Values.blobs.volume.enabled }}
    - name: blobs
      persistentVolumeClaim: {claimName: {{ $root.Values.blobs.volume.existingClaim | default (printf "%s-blobs" (include "drover.name" $root)) }}}
    {{- end }}
    {{- with $v.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{/* drover.disruption: keeps at least one pod of a component running, given as (list $ component replicas). */}}
{{- define "drover.disruption" -}}
{{- $root := index . 0 }}
{{- if and $root.Values.podDisruptionBudget.enabled (gt (int (index . 2)) 1) }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "drover.name" $root }}-{{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "drover.labels" (list $root (index . 1)) | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "drover.selector" (list $root (index . 1)) | nindent 6 }}
{{- end }}
{{- end }}
