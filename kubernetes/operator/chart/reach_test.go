package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// serverArgs returns the arguments of the server's container.
func serverArgs(t *testing.T, objects []Object) []string {
	t.Helper()
	return get[appsv1.StatefulSet](t, objects, "StatefulSet", "reckon").Spec.Template.Spec.Containers[0].Args
}

// TestAddresses: programs are led to the service, people to where they reach the server.
func TestAddresses(t *testing.T) {
	const service = "https://reckon.reckon.svc:9870"
	for values, people := range map[string]string{
		"{}":                                     service,
		"publicURL: https://reckon.example.org/": "https://reckon.example.org",
		"ingress: {enabled: true, host: r.example.org, tlsSecret: cert}":             "https://r.example.org",
		"ingress: {enabled: true, host: r.example.org}":                              "http://r.example.org",
		"httpRoute: {enabled: true, host: g.example.org, parentRefs: [{name: all}]}": "https://g.example.org",
	} {
		args := serverArgs(t, rendered(t, values))
		if !slices.Contains(args, "--set=external-url="+people) || !slices.Contains(args, "--set=graph-url="+service) {
			t.Errorf("%s: %q", values, args)
		}
	}
	in := get[networkingv1.Ingress](t, rendered(t, "ingress: {enabled: true, host: r.example.org, className: nginx, tlsSecret: cert}"), "Ingress", "reckon")
	if *in.Spec.IngressClassName != "nginx" || in.Spec.Rules[0].Host != "r.example.org" || in.Spec.TLS[0].SecretName != "cert" ||
		in.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Number != 9870 {
		t.Errorf("%+v", in.Spec)
	}
	for values, want := range map[string]string{
		"ingress: {enabled: true}": "ingress.host", "httpRoute: {enabled: true, host: x.example}": "httpRoute.parentRefs", "publicURL: here": "publicURL",
	} {
		if _, _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", values, err, want)
		}
	}
}

// TestForecastsAndSignIn: the server gets the InfluxDB and the configuration of the sign-in, with their secrets in files.
func TestForecastsAndSignIn(t *testing.T) {
	objects := rendered(t, "{forecasts: {influx: {url: 'http://influx:8086/', org: my lab, bucket: power, tokenSecret: influx}}, oidc: {existingSecret: login}}")
	args := serverArgs(t, objects)
	for _, want := range []string{"--set=forecasts-to=http://influx:8086/api/v2/write?org=my+lab&bucket=power&token_file=/etc/reckon/influx/token",
		"--set=oidc-config=/etc/reckon/oidc/oidc.yaml"} {
		if !slices.Contains(args, want) {
			t.Errorf("no %s in %q", want, args)
		}
	}
	paths := map[string]string{}
	for _, v := range get[appsv1.StatefulSet](t, objects, "StatefulSet", "reckon").Spec.Template.Spec.Volumes {
		if v.Name != "config" {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				for _, i := range s.Secret.Items {
					paths[i.Path] = s.Secret.Name
				}
			}
		}
	}
	if paths["influx/token"] != "influx" || paths["oidc/client-secret"] != "login" || paths["oidc/oidc.yaml"] != "login" {
		t.Error(paths)
	}
	if _, _, err := render(t, "forecasts: {influx: {url: 'http://influx:8086'}}"); err == nil || !strings.Contains(err.Error(), "forecasts.influx.org") {
		t.Error(err)
	}
}

// TestAlertsByValues: receivers of simple values are kept in a Secret and never in arguments or a ConfigMap.
func TestAlertsByValues(t *testing.T) {
	objects := rendered(t, `alerts:
  receivers:
    slack: {url: "https://hooks.slack.example/secret", channel: "#ops"}
    webhook: {url: "http://hook.example/in"}
    pagerduty: {routingKey: secretkey}
    email: {to: ops@example.org, from: reckon@example.org, smarthost: "mail:25", username: u, password: secretword}
  rules: {groups: [{name: own, rules: [{alert: Mine, expr: vector(1)}]}]}
logs: {loki: {url: "http://loki:3100"}}
server: {extraEnv: [{name: A, value: b}], extraVolumes: [{name: more, emptyDir: {}}], extraVolumeMounts: [{name: more, mountPath: /more}]}`)
	var config struct {
		Route     struct{ Receiver string }
		Receivers []map[string]any
	}
	secret := get[corev1.Secret](t, objects, "Secret", "reckon-alerts")
	if err := yaml.Unmarshal([]byte(secret.StringData["alertmanager.yml"]), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Receivers) != 1 || len(config.Receivers[0]) != 5 || config.Receivers[0]["name"] != config.Route.Receiver {
		t.Errorf("%+v", config)
	}
	test := get[corev1.Pod](t, objects, "Pod", "reckon-test-alerts")
	if !slices.Equal(test.Spec.Containers[0].Args, []string{"alerts", "test"}) || test.Spec.ServiceAccountName != "reckon" || test.Annotations["helm.sh/hook"] != "test" {
		t.Errorf("%+v", test)
	}
	if slices.Contains(has(rendered(t, ""), "Pod"), "reckon-test-alerts") {
		t.Error("a test of alerts without receivers")
	}
	for _, o := range objects {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if o.Kind() != "Secret" && strings.Contains(string(raw), "secret"+"word") {
			t.Errorf("%s %s has a password", o.Kind(), o.Name())
		}
	}
	args := serverArgs(t, objects)
	for _, want := range []string{"--set=alertmanager-config=/etc/reckon/alerts/alertmanager.yml", "--set=rules=default,/etc/reckon/rules.yaml", "--set=graph-loki=http://loki:3100"} {
		if !slices.Contains(args, want) {
			t.Errorf("%q lacks %s", args, want)
		}
	}
	pod := get[appsv1.StatefulSet](t, objects, "StatefulSet", "reckon").Spec.Template.Spec
	if c := pod.Containers[0]; !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "A" }) ||
		!slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/more" }) ||
		!slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "more" }) {
		t.Errorf("%+v", pod)
	}
	own := rendered(t, "alerts: {existingSecret: mine}")
	if slices.Contains(has(own, "Secret"), "reckon-alerts") || !slices.Contains(serverArgs(t, own), "--set=alertmanager-config=/etc/reckon/alerts/alertmanager.yml") {
		t.Error("a Secret of one's own is not used")
	}
}

// TestDashboards: the ConfigMaps hold the dashboards byte by byte, with the labels that Grafana's sidecars look for.
func TestDashboards(t *testing.T) {
	objects := rendered(t, "dashboards: {enabled: true}")
	files, err := filepath.Glob("../../../deploy/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := get[corev1.ConfigMap](t, objects, "ConfigMap", name[:len(name)-len(".json")]+"-dashboard")
		if m.Data[name] != string(want) || m.Labels["grafana_dashboard"] != "1" {
			t.Errorf("%s differs, labels %v", name, m.Labels)
		}
	}
	if m := get[corev1.ConfigMap](t, objects, "ConfigMap", "reckon-datasources"); m.Labels["grafana_datasource"] != "1" || !strings.Contains(m.Data["reckon.yaml"], "https://reckon.reckon.svc:9870") {
		t.Errorf("%+v", m)
	}
	if slices.Contains(has(rendered(t, "{}"), "ConfigMap"), "reckon-datasources") {
		t.Error("dashboards that nobody asked for")
	}
}

// TestDigestByValues: the digest of the week is a mail of its own, with the report as its text, over the mail server of the receivers.
func TestDigestByValues(t *testing.T) {
	objects := rendered(t, `alerts:
  digest: weekly
  receivers: {email: {to: ops@example.org, from: reckon@example.org, smarthost: "mail:25", requireTLS: false}}`)
	if args := serverArgs(t, objects); !slices.Contains(args, "--set=digest=weekly") {
		t.Errorf("%q", args)
	}
	var config struct {
		Route struct {
			Routes []struct {
				Receiver string
				Matchers []string
			}
		}
		Receivers []struct {
			Name         string
			EmailConfigs []struct {
				To, Smarthost, Text string
				RequireTLS          *bool `json:"require_tls"`
			} `json:"email_configs"`
		}
	}
	if err := yaml.Unmarshal([]byte(get[corev1.Secret](t, objects, "Secret", "reckon-alerts").StringData["alertmanager.yml"]), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Route.Routes) != 1 || config.Route.Routes[0].Matchers[0] != `alertname="WeeklyDigest"` || len(config.Receivers) != 2 {
		t.Fatalf("%+v", config)
	}
	mail := config.Receivers[1]
	if mail.Name != config.Route.Routes[0].Receiver || len(mail.EmailConfigs) != 1 || mail.EmailConfigs[0].RequireTLS == nil || *mail.EmailConfigs[0].RequireTLS ||
		mail.EmailConfigs[0].Text != "{{ .CommonAnnotations.description }}" || mail.EmailConfigs[0].Smarthost != "mail:25" {
		t.Errorf("%+v", mail)
	}
	if args := serverArgs(t, rendered(t, "")); slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "digest") }) {
		t.Errorf("%q", args)
	}
	if _, _, err := render(t, "alerts: {digest: daily}"); err == nil {
		t.Error("another interval is taken")
	}
}

// TestLogLabels: the graph asks the log store by the labels that the collector of the chart makes, as the server does.
func TestLogLabels(t *testing.T) {
	const selector = `{k8s_namespace_name="{{.Namespace}}",k8s_pod_name=~"{{.Pods}}"}`
	objects := rendered(t, "logs: {loki: {url: 'http://loki:3100'}, collector: {enabled: true}}")
	if args := serverArgs(t, objects); !slices.Contains(args, "--set=loki-selector="+selector) {
		t.Errorf("%q", args)
	}
	if args := get[appsv1.Deployment](t, objects, "Deployment", "reckon-graph").Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--graph-loki-selector="+selector) {
		t.Errorf("%q", args)
	}
}
