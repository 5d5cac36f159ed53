{{- define "geodither.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "geodither.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "geodither.selector" . }}
{{- end }}

{{- define "geodither.selector" -}}
app.kubernetes.io/name: geodither
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The pods of the service, and not the one of the doctor. */}}
{{- define "geodither.instances" -}}
{{ include "geodither.selector" . }}
app.kubernetes.io/component: instance
{{- end }}

{{- define "geodither.image" -}}
{{- $repository := required "image.repository: name the image that you have built and pushed" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "geodither.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "geodither.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{/* The config, with what the chart decides. */}}
{{- define "geodither.config" -}}
{{- $decided := dict
  (ternary "models" "model" (ne .Values.model.schedule "")) (printf "/etc/geodither/model/%s" (.Values.model.schedule | default .Values.model.file))
  "key_file" (printf "/etc/geodither/key/%s" .Values.noiseKey.file)
  "state_dir" "/var/lib/geodither/state"
  "instance_id" "${POD_NAME}"
  "http" (dict "listen" (printf ":%v" .Values.http.port))
-}}
{{- range $key := list "model" "models" "key_file" "state_dir" "instance_id" -}}
{{- if hasKey $.Values.config $key -}}
{{- fail (printf "config.%s: leave it out, the chart sets it" $key) -}}
{{- end -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.config) $decided | toYaml -}}
{{- end }}

{{/* What every pod of the chart has in common. */}}
{{- define "geodither.container" -}}
image: {{ include "geodither.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumeMounts:
  - {name: config, mountPath: /etc/geodither/config, readOnly: true}
  - {name: model, mountPath: /etc/geodither/model, readOnly: true}
  - {name: key, mountPath: /etc/geodither/key, readOnly: true}
  - {name: state, mountPath: /var/lib/geodither}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "geodither.volumes" -}}
- name: config
  configMap: {name: {{ include "geodither.name" . }}}
- name: model
  {{- required "model.volume: name the volume that has the mobility model, such as {configMap: {name: fleet-model}}" (.Values.model.volume | default nil) | toYaml | nindent 2 }}
- name: key
  secret:
    secretName: {{ required "noiseKey.existingSecret: name the secret that has the key of the noise; the chart never makes one" .Values.noiseKey.existingSecret }}
    defaultMode: 0440
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "geodither.pod" -}}
serviceAccountName: {{ include "geodither.serviceAccount" . }}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
