package jobs

import (
	"fmt"
	"strings"

	"reckon/kubernetes/operator/metricset"
)

// fluxSetup is a script that writes the configuration of a Flux broker to the view before the view is copied. It writes
// the resources, the list of brokers and, on the leading host, the shared key.
const fluxSetup = `root=/opt/view
export PATH=$root/bin:$PATH
mkdir -p $root/etc/flux/system/cron.d $root/etc/flux/imp/conf.d $root/etc/flux/config $root/etc/curve $root/var/lib/flux $root/run/flux
flux R encode --hosts="$RECKON_FLUX_HOSTS" --local > $root/etc/flux/system/R
cat <<RECKON_END > $root/etc/flux/imp/conf.d/imp.toml
[exec]
allowed-users = [ "$RECKON_FLUX_USER", "root" ]
allowed-shells = [ "$RECKON_VIEW/view/libexec/flux/flux-shell" ]
RECKON_END
cat <<RECKON_END > $root/etc/flux/config/broker.toml
[exec]
imp = "$RECKON_VIEW/view/libexec/flux/flux-imp"
[access]
allow-guest-user = true
allow-root-owner = true
[resource]
path = "$RECKON_VIEW/view/etc/flux/system/R"
[bootstrap]
curve_cert = "$RECKON_VIEW/view/etc/curve/curve.cert"
default_port = 8050
default_bind = "tcp://eth0:%p"
default_connect = "tcp://%h.$RECKON_DOMAIN:%p"
hosts = [ { host="$RECKON_FLUX_HOSTS" } ]
[archive]
dbpath = "$RECKON_VIEW/view/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"
[sched-fluxion-qmanager]
queue-policy = "fcfs"
RECKON_END
chmod 4755 $root/libexec/flux/flux-imp
chmod 0644 $root/etc/flux/imp/conf.d/imp.toml
if [ "$(hostname)" = "$RECKON_LEAD" ]; then
  flux keygen $root/etc/curve/curve.cert
  chmod go-r $root/etc/curve/curve.cert
  chown "$RECKON_FLUX_UID" $root/etc/curve/curve.cert
fi`

// runUnderFlux wraps the command of a launcher to run under a tree of Flux brokers. Workers join the tree.
func (s *script) runUnderFlux(e *metricset.Extra, p *jobPart, pods int32, command bool) {
	v := e.Values
	options := `-Scron.directory=/etc/flux/system/cron.d -Stbon.fanout=256 -Srundir=/run/flux -Sstatedir="$STATE_DIR" ` +
		`-Slocal-uri=local:///run/flux/local -Stbon.connect_timeout="$RECKON_TIMEOUT" -Sbroker.quorum="$RECKON_QUORUM" ` +
		`-Slog-stderr-level="$RECKON_LOG_LEVEL" -Slog-stderr-mode=local`
	if v.On("interactive") {
		options += " -Sbroker.rc2_none"
	}
	if v.On("debugZeroMQ") {
		options += " -Stbon.zmqdebug=1"
	}
	s.pre = joinLines(s.pre, v["preCommand"], workdir(e), `reckon_root="$RECKON_VIEW/view"
export STATE_DIR="$reckon_root/var/lib/flux" PYTHONPATH=$(ls -d "$reckon_root"/lib/python3*/site-packages | head -1)
mkdir -p "$STATE_DIR" /run/flux`)
	start := `flux start -o --config "$reckon_root/etc/flux/config" ` + options
	if p.workers {
		s.command = "until [ -s \"$reckon_root/etc/curve/curve.cert\" ]; do sleep 1; done\nwhile true; do\n  " + start + "\n  sleep 5\ndone"
		return
	}
	if !command {
		return
	}
	flags := ""
	tasks := v.Int("tasks")
	if tasks == 0 || tasks > int64(pods) {
		flags = fmt.Sprintf("-N %d", pods)
	}
	if tasks != 0 {
		flags = strings.TrimSpace(flags + fmt.Sprintf(" -n %d", tasks))
	}
	watch := ""
	if strings.Contains(v["submit"], "submit") {
		watch = "--watch"
	}
	share := `for reckon_host in $RECKON_HOSTS; do
  case "$reckon_host" in "$RECKON_LEAD".*) ;; *) scp "$reckon_root/etc/curve/curve.cert" "$reckon_host:$reckon_root/etc/curve/curve.cert" ;; esac
done`
	s.command = joinLines(share, joinWords(start, "flux", v["submit"], flags, v["optionFlags"], watch, "--quiet -vvv", s.command))
}
