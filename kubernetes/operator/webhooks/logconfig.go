package webhooks

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
)

// configVariable is the variable that holds the configuration: the collector reads it by --config=env:.
const configVariable = "RECKON_LOGS_CONFIG"

// setConfig sets the configuration of the log collector. It is a file in a volume of the pod, or is built from the
// pod's annotations. The collector replaces ${env:NAME}, so values of annotations are quoted as JSON with each $
// doubled.
func (l *Logs) setConfig(w *logRequest, pod *core.Pod, c *core.Container, dir string) error {
	field := func(name, path string) core.EnvVar {
		return core.EnvVar{Name: name, ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: path}}}
	}
	c.Env = append(c.Env, field("NODE_NAME", "spec.nodeName"), field("POD_NAME", "metadata.name"),
		field("POD_NAMESPACE", "metadata.namespace"),
		field("POD_IP", "status.podIP"), field("POD_SERVICE_ACCOUNT", "spec.serviceAccountName"))
	for name, v := range map[string]string{"APPLICATION_LOG_DIR": dir, "TAG_PREFIX": w.values["tag-prefix"],
		"AGGREGATOR_HOST": w.values["aggregator-host"], "AGGREGATOR_PORT": w.value("aggregator-port", "24224")} {
		c.Env = append(c.Env, core.EnvVar{Name: name, Value: strings.ReplaceAll(v, "$(", "$$(")})
	}
	slices.SortStableFunc(c.Env[5:], func(a, b core.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	custom, err := parseEnv(w)
	if err != nil {
		return err
	}
	c.Env = append(c.Env, custom...)
	if volume := w.values["config-volume"]; volume != "" {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool { return v.Name == volume }) {
			return fmt.Errorf("%sconfig-volume: the pod has no volume %q", w.prefix, volume)
		}
		c.VolumeMounts = append(c.VolumeMounts, core.VolumeMount{Name: volume, MountPath: "/etc/reckon-logs", ReadOnly: true})
		c.Args = []string{"--config=/etc/reckon-logs/collector.yaml"}
		return nil
	}
	config, err := l.collectorConfig(w, dir)
	if err != nil {
		return err
	}
	c.Env = append(c.Env, core.EnvVar{Name: configVariable, Value: config})
	c.Args = []string{"--config=env:" + configVariable}
	return nil
}

// parseEnv parses environment variables: "NAME=value" pairs, separated by commas or lines.
func parseEnv(w *logRequest) (out []core.EnvVar, err error) {
	for _, pair := range strings.FieldsFunc(w.values["custom-env"], func(r rune) bool { return r == ',' || r == '\n' || r == ';' }) {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || name == "" || strings.ContainsAny(name, " \"'") {
			return nil, fmt.Errorf("%scustom-env: %q is not NAME=VALUE", w.prefix, pair)
		}
		out = append(out, core.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$(", "$$(")})
	}
	return out, nil
}

// collectorConfig returns the configuration of the collector as JSON, which is YAML. Lines of up to 16 MiB are taken.
func (l *Logs) collectorConfig(w *logRequest, dir string) (string, error) {
	receiver := map[string]any{
		"include": []string{dir + "/*.log", dir + "/**/*.log"}, "start_at": "beginning", "include_file_name": true,
		"include_file_path": true,
		"max_log_size":      "16MiB", "poll_interval": "200ms",
		"attributes": map[string]any{"tag": quoteValue(w.values["tag-prefix"])},
		"resource": map[string]any{"k8s.pod.name": "${env:POD_NAME}", "k8s.namespace.name": "${env:POD_NAMESPACE}",
			"k8s.node.name": "${env:NODE_NAME}", "service.name": "${env:POD_NAME}"},
	}
	// No parser exists for the lines of fluent-bit; those of fluentd are JSON by default.
	format := w.value("log-format", map[bool]string{true: "json", false: "none"}[w.prefix == prefixFluent &&
		w.value("collector", "fluentd") == "fluentd"])
	switch format {
	case "json":
		parser := map[string]any{"type": "json_parser", "on_error": "send_quiet"}
		if key := w.values["time-key"]; key != "" || w.values["time-format"] != "" {
			parser["timestamp"] = map[string]any{"parse_from": "attributes[" + strconv.Quote(quoteValue(orElse(key, "time"))) + "]",
				"layout_type": "strptime", "layout": quoteValue(w.value("time-format", "%Y-%m-%dT%H:%M:%S%z")), "on_error": "send_quiet"}
		}
		receiver["operators"] = []any{parser}
	case "none", "":
	default:
		return "", fmt.Errorf("%slog-format: %q is none of json and none; give a configuration of your own by config-volume", w.prefix,
			format)
	}
	name, exporter, err := l.exporterConfig(w)
	if err != nil {
		return "", err
	}
	if text := w.values["send-timeout"]; text != "" {
		d, err := parseSeconds(text)
		if err != nil {
			return "", fmt.Errorf("%ssend-timeout: %w", w.prefix, err)
		}
		exporter["timeout"] = d.String()
	}
	config := map[string]any{
		"receivers": map[string]any{"filelog": receiver},
		"exporters": map[string]any{name: exporter},
		"service": map[string]any{
			"pipelines": map[string]any{"logs": map[string]any{"receivers": []string{"filelog"}, "exporters": []string{name}}},
			"telemetry": map[string]any{"metrics": map[string]any{"level": "none"}}},
	}
	text, err := json.Marshal(config)
	return string(text), err
}

// exporterConfig returns the name and the settings of the collector's exporter. A fluentd aggregator is also addressed by OTLP, because the
// collector no longer has an exporter for fluentd's own protocol. The OTLP inputs of fluentd and fluent-bit accept it.
func (l *Logs) exporterConfig(w *logRequest) (string, map[string]any, error) {
	endpoint := w.value("endpoint", l.Endpoint)
	if host := w.values["aggregator-host"]; host != "" && w.values["endpoint"] == "" {
		port := w.value("aggregator-port", "24224")
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", nil, fmt.Errorf("%saggregator-port: %q is not a port", w.prefix, port)
		}
		endpoint = "http://" + net.JoinHostPort(host, port)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", nil, fmt.Errorf(
			"%q is no address to send logs to; write %sendpoint such as http://loki:3100/otlp, or give the operator --logs-endpoint",
			endpoint, w.prefix)
	}
	return "otlphttp", map[string]any{"endpoint": quoteValue(endpoint),
		"retry_on_failure": map[string]any{"enabled": true, "max_elapsed_time": "0s"},
		"sending_queue":    map[string]any{"enabled": true, "queue_size": 1000}}, nil
}

// quoteValue protects external text from the collector's replacement of variables.
func quoteValue(s string) string { return strings.ReplaceAll(s, "$", "$$") }

func orElse(s, missing string) string {
	if s == "" {
		return missing
	}
	return s
}

// parseSeconds reads 60, 60s or 1m.
func parseSeconds(text string) (time.Duration, error) {
	if n, err := strconv.Atoi(text); err == nil {
		text = strconv.Itoa(n) + "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no time such as 60s", text)
	}
	return d, nil
}
