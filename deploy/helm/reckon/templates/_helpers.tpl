{{- define "reckon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "reckon.fullname" -}}
{{- $name := include "reckon.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Labels of a component: dict "root" . "component" "agent" */}}
{{- define "reckon.selector" -}}
app.kubernetes.io/name: {{ include "reckon.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "reckon.labels" -}}
{{ include "reckon.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "reckon.image" -}}
{{- printf "%s%s:%s" .root.Values.image.registry .repository (default .root.Chart.AppVersion .root.Values.image.tag) -}}
{{- end }}

{{- define "reckon.tlsSecret" -}}
{{- default (printf "%s-tls" (include "reckon.fullname" .)) .Values.tls.existingSecret -}}
{{- end }}

{{- define "reckon.caConfigMap" -}}
{{- default (printf "%s-ca" (include "reckon.fullname" .)) .Values.tls.existingCAConfigMap -}}
{{- end }}

{{- define "reckon.makesTLS" -}}
{{- if and .Values.tls.enabled .Values.server.enabled (not .Values.tls.existingSecret) }}true{{ end -}}
{{- end }}

{{- define "reckon.tlsNames" -}}
{{- $name := include "reckon.fullname" . -}}
{{- $ns := .Release.Namespace -}}
{{- concat (list (printf "%s.%s.svc" $name $ns) (printf "%s.%s" $name $ns) $name "localhost") .Values.tls.extraNames | join "," -}}
{{- end }}

{{/*
The certificate, made once a rendering and kept in .Values.tls.made: that of the cluster as long as it is for the
same names, else a new one with an authority of its own, whose key is thrown away.
*/}}
{{- define "reckon.makeTLS" -}}
{{- if not (hasKey .Values.tls "made") -}}
{{- $names := include "reckon.tlsNames" . -}}
{{- $for := printf "%s %s" $names (join "," .Values.tls.extraIPs) -}}
{{- $made := dict "for" $for -}}
{{- $old := lookup "v1" "Secret" .Release.Namespace (include "reckon.tlsSecret" .) -}}
{{- if and $old $old.data (eq (dig "metadata" "annotations" "reckon/names" "" $old) $for) -}}
{{- $_ := set $made "crt" (index $old.data "tls.crt") -}}
{{- $_ := set $made "key" (index $old.data "tls.key") -}}
{{- $_ := set $made "ca" (index $old.data "ca.crt") -}}
{{- else -}}
{{- $ca := genCA (printf "%s authority" (include "reckon.fullname" .)) 3650 -}}
{{- $cert := genSignedCert (include "reckon.fullname" .) (concat (list "127.0.0.1") .Values.tls.extraIPs) (concat (list) (splitList "," $names)) 3650 $ca -}}
{{- $_ := set $made "crt" ($cert.Cert | b64enc) -}}
{{- $_ := set $made "key" ($cert.Key | b64enc) -}}
{{- $_ := set $made "ca" ($ca.Cert | b64enc) -}}
{{- end -}}
{{- $_ := set .Values.tls "made" $made -}}
{{- end -}}
{{- end }}

{{- define "reckon.ownURL" -}}
{{- printf "%s://%s.%s.svc:%v" (ternary "https" "http" .Values.tls.enabled) (include "reckon.fullname" .) .Release.Namespace .Values.server.service.port -}}
{{- end }}

{{/* Where people reach the server. */}}
{{- define "reckon.publicURL" -}}
{{- if .Values.publicURL -}}
{{- trimSuffix "/" .Values.publicURL -}}
{{- else if and .Values.ingress.enabled .Values.ingress.host -}}
{{- printf "%s://%s" (ternary "https" "http" (ne .Values.ingress.tlsSecret "")) .Values.ingress.host -}}
{{- else if and .Values.httpRoute.enabled .Values.httpRoute.host -}}
{{- printf "https://%s" .Values.httpRoute.host -}}
{{- else -}}
{{- include "reckon.ownURL" . -}}
{{- end -}}
{{- end }}

{{/* The Secret with the configuration of receivers; empty for none. */}}
{{- define "reckon.alertsSecret" -}}
{{- if .Values.alerts.existingSecret -}}
{{- .Values.alerts.existingSecret -}}
{{- else if include "reckon.receivers" . -}}
{{- printf "%s-alerts" (include "reckon.fullname" .) -}}
{{- end -}}
{{- end }}

{{- define "reckon.receivers" -}}
{{- $r := .Values.alerts.receivers -}}
{{- if $r.slack.url }}
slack_configs:
  - {api_url: {{ $r.slack.url | quote }}, channel: {{ $r.slack.channel | quote }}, send_resolved: true}
{{- end }}
{{- if $r.webhook.url }}
webhook_configs:
  - {url: {{ $r.webhook.url | quote }}}
{{- end }}
{{- if $r.pagerduty.routingKey }}
pagerduty_configs:
  - {routing_key: {{ $r.pagerduty.routingKey | quote }}}
{{- end }}
{{- if $r.email.to }}
email_configs:
  - send_resolved: true
    {{- include "reckon.email" . | nindent 4 }}
{{- end }}
{{- end }}

{{- define "reckon.email" -}}
{{- with .Values.alerts.receivers.email -}}
to: {{ .to | quote }}
from: {{ required "alerts.receivers.email.from: give the sender" .from | quote }}
smarthost: {{ required "alerts.receivers.email.smarthost: give HOST:PORT of the mail server" .smarthost | quote }}
require_tls: {{ .requireTLS }}
{{- if .username }}
auth_username: {{ .username | quote }}
auth_password: {{ .password | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reckon.pushURL" -}}
{{- if .Values.agent.push.url -}}
{{- .Values.agent.push.url -}}
{{- else if .Values.server.enabled -}}
{{- include "reckon.ownURL" . -}}
{{- end -}}
{{- end }}

{{/* LogQL of the logs of a workload: Loki makes labels of the attributes that the collector sets. */}}
{{- define "reckon.logSelector" -}}
{{- if .Values.logs.loki.selector -}}
{{- .Values.logs.loki.selector -}}
{{- else if .Values.logs.collector.enabled -}}
{{ `{k8s_namespace_name="{{.Namespace}}",k8s_pod_name=~"{{.Pods}}"}` }}
{{- end -}}
{{- end }}

{{- define "reckon.logEndpoint" -}}
{{- if .Values.logs.collector.endpoint -}}
{{- .Values.logs.collector.endpoint -}}
{{- else if .Values.logs.loki.url -}}
{{- printf "%s/otlp" (trimSuffix "/" .Values.logs.loki.url) -}}
{{- end -}}
{{- end }}

{{/* What does not go together. */}}
{{- define "reckon.check" -}}
{{- if and .Values.logs.collector.enabled (not (include "reckon.logEndpoint" .)) -}}
{{- fail "logs.collector.enabled needs somewhere to send to: logs.loki.url, such as http://loki.monitoring:3100" -}}
{{- end -}}
{{- if and (not .Values.tls.enabled) (not .Values.insecure) -}}
{{- fail "without TLS no token is sent, so the server could not tell who sends: leave tls.enabled on, or let everybody who reaches it see and change everything with insecure=true" -}}
{{- end -}}
{{- if and .Values.insecure .Values.tls.enabled -}}
{{- fail "insecure=true is for a server without TLS: set tls.enabled=false too, or leave insecure out" -}}
{{- end -}}
{{- if and .Values.tls.existingSecret (not .Values.tls.existingCAConfigMap) -}}
{{- fail "tls.existingSecret needs tls.existingCAConfigMap: the ConfigMap with ca.crt that agents trust" -}}
{{- end -}}
{{- if and (not .Values.server.enabled) (not .Values.agent.push.url) (not .Values.agent.metrics.enabled) -}}
{{- fail "without the server give agents somewhere to send to (agent.push.url), or let Prometheus read them (agent.metrics.enabled)" -}}
{{- end -}}
{{- if and .Values.agent.push.tokenSecret (not (hasPrefix "https://" .Values.agent.push.url)) -}}
{{- fail "agent.push.tokenSecret is sent by https only: write agent.push.url with https://" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host, such as reckon.example.org" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (or (not .Values.httpRoute.host) (not .Values.httpRoute.parentRefs)) -}}
{{- fail "httpRoute.enabled needs httpRoute.host and httpRoute.parentRefs: the name and the Gateways of the route" -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (not .Values.agent.metrics.enabled) -}}
{{- fail "podMonitor.enabled needs agent.metrics.enabled: without it /metrics is not reachable from outside of the pods" -}}
{{- end -}}
{{- end }}

{{/* Where and how the cluster is described in the knowledge graph. */}}
{{- define "reckon.graphArgs" -}}
- --graph={{ include "reckon.ownURL" . }}
- --graph-pages={{ include "reckon.publicURL" . }}
{{- with .Values.logs.loki.url }}
- --graph-loki={{ . }}
{{- end }}
{{- with include "reckon.logSelector" . }}
- {{ printf "--graph-loki-selector=%s" . | quote }}
{{- end }}
{{- with .Values.site }}
- --graph-site={{ . }}
{{- end }}
{{- if .Values.tls.enabled }}
- --graph-token-file=/var/run/secrets/reckon/token
- --graph-ca-file=/etc/reckon/ca/ca.crt
{{- end }}
{{- end }}
