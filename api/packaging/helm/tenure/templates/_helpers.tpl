{{- define "tenure.name" -}}
{{- if contains "tenure" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-tenure" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tenure.selector" -}}
app.kubernetes.io/name: tenure
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tenure.labels" -}}
{{ include "tenure.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tenure.scheme" -}}
{{- if .Values.settings.tls }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- define "tenure.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The account name. rbac.yaml requires it if its roles are created. */}}
{{- define "tenure.account" -}}
{{- if .Values.rbac.create }}tenure{{ else }}{{ include "tenure.name" . }}{{ end }}
{{- end }}

{{/* The pod template, for one server with a volume and for several with a database. */}}
{{- define "tenure.pod" -}}
metadata:
  labels:
    {{- include "tenure.selector" . | nindent 4 }}
  annotations:
    checksum/settings: {{ include (print $.Template.BasePath "/settings.yaml") . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "tenure.account" . }}
  automountServiceAccountToken: {{ .Values.rbac.create }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- if .Values.secret }}
  initContainers:
  # The group can read files of a secret, but Tenure accepts a key only if no other user can read it.
  - name: keys
    image: {{ include "tenure.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
    - /bin/sh
    - -ec
    - |
      for file in certificate-key.pem admin.token platform.key pgpass; do
          if [ -f "/run/tenure-secret/$file" ]; then install -m 0600 "/run/tenure-secret/$file" "/var/lib/tenure/$file"; fi
      done
    securityContext:
      {{- include "tenure.contained" . | nindent 6 }}
    resources:
      requests: {cpu: 10m, memory: 16Mi}
      limits: {memory: 64Mi}
    volumeMounts:
    - name: data
      mountPath: /var/lib/tenure
    - name: secret
      mountPath: /run/tenure-secret
      readOnly: true
  {{- end }}
  containers:
  - name: tenure
    image: {{ include "tenure.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args: [serve, --listen, "0.0.0.0:7878"]
    env:
    - name: TENURE_DATA
      value: /var/lib/tenure
    - name: TENURE_CONFIG
      value: /etc/tenure/tenure.toml
    - name: TENURE_LOG_FORMAT
      value: json
    - name: TENURE_HTTP_GRACE
      value: {{ .Values.grace | quote }}
    {{- if eq .Values.store.kind "postgres" }}
    - name: TENURE_STORE_URL
      value: {{ .Values.store.url | quote }}
    - name: TENURE_STORE_SCHEMA
      value: {{ .Values.store.schema | quote }}
    - name: TENURE_STORE_NAME
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    - name: PGPASSFILE
      value: /var/lib/tenure/pgpass
    {{- end }}
    {{- if .Values.targets }}
    - name: TENURE_TARGETS
      value: /etc/tenure/targets.yaml
    {{- end }}
    {{- with .Values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    ports:
    - name: http
      containerPort: 7878
      protocol: TCP
    # A large store takes time to open.
    startupProbe:
      httpGet: {path: /livez, port: http, scheme: {{ include "tenure.scheme" . }}}
      periodSeconds: 2
      failureThreshold: 150
    livenessProbe:
      httpGet: {path: /livez, port: http, scheme: {{ include "tenure.scheme" . }}}
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    readinessProbe:
      httpGet: {path: /readyz, port: http, scheme: {{ include "tenure.scheme" . }}}
      periodSeconds: 2
      timeoutSeconds: 2
      failureThreshold: 2
    securityContext:
      {{- include "tenure.contained" . | nindent 6 }}
    resources:
      {{- toYaml .Values.resources | nindent 6 }}
    volumeMounts:
    - name: data
      mountPath: /var/lib/tenure
    - name: settings
      mountPath: /etc/tenure
      readOnly: true
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
  - name: settings
    configMap:
      name: {{ include "tenure.name" . }}
  {{- if .Values.secret }}
  - name: secret
    secret:
      secretName: {{ .Values.secret }}
      defaultMode: 0440
  {{- end }}
  {{- if eq .Values.store.kind "postgres" }}
  - name: data
    emptyDir: {}
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.affinity }}
  affinity:
    {{- toYaml .Values.affinity | nindent 4 }}
  {{- else if eq .Values.store.kind "postgres" }}
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tenure.selector" . | nindent 8 }}
  {{- end }}
{{- end }}

{{- define "tenure.contained" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
